//! Operations whose output has been computed, and whose gradient is given too.
//!
//! candle's own gradient of what an operation is composed of may be slow, or keep much of what lies in between. The
//! output is computed outside candle's graph, and becomes that of a custom operation, whose memory it is moved to.

mod output;

use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail,
};

use super::aside::hand_over;
use super::constants::seen;
use super::tape::{apply1, apply2, apply3};
pub(crate) use output::Output;

/// Gradients of inputs, from the inputs, the output and its gradient; for each input, whether it is wanted.
pub(crate) type Backward<const N: usize> = Box<
    dyn Fn([&Tensor; N], &Tensor, &Tensor, [bool; N]) -> Result<[Option<Tensor>; N]> + Send + Sync,
>;

/// An operation on these tensors, whose gradients are computed from them and the output's gradient; `output` was computed without a graph
/// and is not shared.
pub(crate) fn custom_gradient<const N: usize>(
    inputs: [&Tensor; N],
    output: Tensor,
    backward: impl Fn([&Tensor; N], &Tensor, [bool; N]) -> Result<[Option<Tensor>; N]>
    + Send
    + Sync
    + 'static,
) -> Result<Tensor>
where
    CustomGradient<N>: Apply<N>,
{
    let backward = Box::new(
        move |inputs: [&Tensor; N], _: &Tensor, gradient: &Tensor, wanted| {
            backward(inputs, gradient, wanted)
        },
    );
    custom_gradient_of_output(inputs, output, backward)
}

/// [`custom_gradient`], with the output among what the gradients are computed from.
pub(crate) fn custom_gradient_of_output<const N: usize>(
    inputs: [&Tensor; N],
    output: Tensor,
    backward: Backward<N>,
) -> Result<Tensor>
where
    CustomGradient<N>: Apply<N>,
{
    if !inputs.into_iter().any(|input| seen(input).track_op()) {
        return Ok(output);
    }
    let op = CustomGradient {
        output: Mutex::new(Some(Output::of(output)?)),
        backward,
    };
    op.apply(inputs)
}

/// An operation on `N` tensors, of which candle has a trait for each number.
pub(crate) trait Apply<const N: usize> {
    fn apply(self, inputs: [&Tensor; N]) -> Result<Tensor>;
}

impl Apply<1> for CustomGradient<1> {
    fn apply(self, [x]: [&Tensor; 1]) -> Result<Tensor> {
        apply1(x, self)
    }
}

impl Apply<2> for CustomGradient<2> {
    fn apply(self, [x, y]: [&Tensor; 2]) -> Result<Tensor> {
        apply2(x, y, self)
    }
}

impl Apply<3> for CustomGradient<3> {
    fn apply(self, [x, y, z]: [&Tensor; 3]) -> Result<Tensor> {
        apply3(x, y, z, self)
    }
}

/// See [`custom_gradient_of_output`].
pub(crate) struct CustomGradient<const N: usize> {
    output: Mutex<Option<Output>>,
    backward: Backward<N>,
}

impl<const N: usize> CustomGradient<N> {
    fn output(&self) -> Result<Output> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match output.take() {
            Some(output) => Ok(output),
            None => bail!("an operation's output was taken before"),
        }
    }

    fn gradients(
        &self,
        inputs: [&Tensor; N],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; N]> {
        let wanted = inputs.map(Tensor::track_op);
        let detached = inputs.map(Tensor::detach);
        let gradients = (self.backward)(
            detached.each_ref(),
            &output.detach(),
            &gradient.detach(),
            wanted,
        )?;
        let mut handed = [const { None }; N];
        for ((slot, input), gradient) in handed.iter_mut().zip(inputs).zip(gradients) {
            *slot = hand_over(input, gradient);
        }
        Ok(handed)
    }
}

impl CustomOp1 for CustomGradient<1> {
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(&self, _x: &CpuStorage, _layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.output()?.on_cpu()
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, _x: &CudaStorage, _layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.output()?.on_cuda()
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [of_x] = self.gradients([x], y, gradient)?;
        Ok(of_x)
    }
}

impl CustomOp2 for CustomGradient<2> {
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(
        &self,
        _x: &CpuStorage,
        _x_layout: &Layout,
        _y: &CpuStorage,
        _y_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.output()?.on_cpu()
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        _x: &CudaStorage,
        _x_layout: &Layout,
        _y: &CudaStorage,
        _y_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.output()?.on_cuda()
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_y] = self.gradients([x, y], output, gradient)?;
        Ok((of_x, of_y))
    }
}

impl CustomOp3 for CustomGradient<3> {
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(
        &self,
        _x: &CpuStorage,
        _x_layout: &Layout,
        _y: &CpuStorage,
        _y_layout: &Layout,
        _z: &CpuStorage,
        _z_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.output()?.on_cpu()
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        _x: &CudaStorage,
        _x_layout: &Layout,
        _y: &CudaStorage,
        _y_layout: &Layout,
        _z: &CudaStorage,
        _z_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.output()?.on_cuda()
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        z: &Tensor,
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_y, of_z] = self.gradients([x, y, z], output, gradient)?;
        Ok((of_x, of_y, of_z))
    }
}

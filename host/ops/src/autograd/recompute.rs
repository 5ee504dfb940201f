//! Blocks whose activations are recomputed in the backward pass instead of kept for it (Chen et al., 2016): memory
//! for time.
//!
//! **Flow.** 1. [`recomputed`] runs the block outside the tape; of what it computes, only the output is left. It is recorded
//! as one operation. 2. In the backward pass, the operation runs the block again, on a tape of its own, and that tape
//! backwards. 3. Gradients of the block's parameters are set aside for the outer pass, as other operations' are.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, DType, Layout, Result, Shape, Tensor, Var, bail,
};

use super::aside::{hand_over, is_collecting, take_before};
use super::constants::{hold, is_constant};
use super::custom_gradient::Output;
use super::tape::{self, apply1, apply2, record};
use crate::choice::autocast::{autocast, autocast_dtype};
use crate::storage::ready;

/// The output of a block for `x`, computed by `forward`. If operations are being [recorded](record), its activations
/// are not kept: the backward pass calls `again`.
///
/// `again` must compute what `forward` did, with the same bits, but without its side effects. `parameters` are the
/// variables that the block depends on. Gradients have the bits that they would have without recomputing, if all
/// operations in the block are this crate's. They exist in [`backward`](crate::backward) only; candle's own
/// `backward` fails.
pub fn recomputed(
    x: &Tensor,
    parameters: &[Tensor],
    forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    again: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let (held, trained): (Vec<_>, Vec<_>) = parameters.iter().cloned().partition(is_constant);
    let x = ready(x)?;
    let is_tracked = x.track_op() && !is_constant(&x);
    let has_gradient = is_tracked || !trained.is_empty();
    if !tape::is_recording() || !has_gradient {
        return forward(&x);
    }
    let paused = tape::pause();
    let output = forward(&x.detach())?.detach();
    drop(paused);
    let anchor = trained.first().cloned();
    let used = trained.clone();
    let op = Recomputed {
        // The block may have given its input back.
        output: Mutex::new(Some(Output::of(output.copy()?)?)),
        products: autocast_dtype(),
        again: Box::new(again),
        trained,
        held,
    };
    let made = match anchor {
        // Without a gradient of its own, the output would not be recorded.
        Some(anchor) if !is_tracked => apply2(&x, &anchor, op),
        _ => apply1(&x, op),
    }?;
    tape::uses(&made, used);
    Ok(made)
}

thread_local! {
    /// Bytes of activations of the largest block that was recomputed.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of activations of the largest block that was recomputed on this thread since this was last asked: what a
/// backward pass needs on top of what its tape [holds](crate::recorded_bytes).
pub fn largest_recomputed() -> usize {
    LARGEST.take()
}

type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

struct Recomputed {
    /// Output of the forward pass, until the operation is applied.
    output: Mutex<Option<Output>>,
    /// Type of products in the forward pass.
    products: Option<DType>,
    again: Forward,
    trained: Vec<Tensor>,
    held: Vec<Tensor>,
}

impl Recomputed {
    /// The output, which is known already.
    fn output(&self) -> Result<Output> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        match output.take() {
            Some(output) => Ok(output),
            None => bail!("a recomputed block was applied twice"),
        }
    }

    /// Runs the block again and then backwards; returns the gradient of `x`, if it has one.
    fn backward(&self, x: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        if !is_collecting() {
            bail!("a block that is recomputed has gradients only in `sconce_ops::backward`")
        }
        let before = take_before(x);
        // A variable of its own, so that the pass ends at it; reshaped, so that it is treated as the activation that it is.
        let variable = if x.track_op() {
            Some(Var::from_tensor(&x.detach())?)
        } else {
            None
        };
        let start = match &variable {
            Some(variable) => variable.reshape(x.dims())?,
            None => x.clone(),
        };
        let held = hold(&self.held);
        let products = autocast(self.products);
        let recording = record();
        let output = (self.again)(&start)?;
        LARGEST.set(LARGEST.get().max(tape::recorded_bytes()));
        let (of_start, mut store) = tape::backward_from(output, gradient, (&start, before))?;
        drop((recording, products, held));
        for parameter in &self.trained {
            // Collected by the pass in progress: nothing is returned.
            hand_over(parameter, store.remove(parameter));
        }
        let Some(of_variable) = variable.and_then(|variable| store.remove(&variable)) else {
            return Ok(of_start);
        };
        Ok(Some(match of_start {
            Some(of_start) => of_start.add(&of_variable)?,
            None => of_variable,
        }))
    }
}

impl CustomOp1 for Recomputed {
    fn name(&self) -> &'static str {
        "recomputed"
    }

    fn cpu_fwd(&self, _x: &CpuStorage, _layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.output()?.on_cpu()
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        _x: &candle_core::CudaStorage,
        _layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        self.output()?.on_cuda()
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.backward(x, gradient)
    }
}

impl CustomOp2 for Recomputed {
    fn name(&self) -> &'static str {
        "recomputed"
    }

    fn cpu_fwd(
        &self,
        _x: &CpuStorage,
        _x_layout: &Layout,
        _anchor: &CpuStorage,
        _anchor_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.output()?.on_cpu()
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        _x: &candle_core::CudaStorage,
        _x_layout: &Layout,
        _anchor: &candle_core::CudaStorage,
        _anchor_layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        self.output()?.on_cuda()
    }

    fn bwd(
        &self,
        x: &Tensor,
        _anchor: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((self.backward(x, gradient)?, None))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::backprop::GradStore;

    use super::*;
    use crate::{Function, add, backward, layer_norm, linear, linear_then, normal_numbers};

    fn var(seed: u64, shape: &[usize]) -> Var {
        let numbers = normal_numbers(seed, shape);
        numbers
            .and_then(|x| Var::from_tensor(&x))
            .expect("a variable")
    }

    fn bits(tensor: &Tensor) -> Vec<u32> {
        let flat = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
        flat.expect("numbers")
            .into_iter()
            .map(f32::to_bits)
            .collect()
    }

    /// x + up(gelu(down(norm(x)))), or with candle's own gelu and sum.
    fn block(x: &Tensor, weights: &[Tensor], is_ours: bool) -> Result<Tensor> {
        let [scale, shift, up, down] = weights else {
            bail!("a block has four parameters")
        };
        let y = layer_norm(x, scale, shift, 1e-5)?;
        if is_ours {
            let y = linear_then(&y, up, None, Function::Gelu)?;
            return add(&linear(&y, down, None)?, x);
        }
        linear(&linear(&y, up, None)?.gelu_erf()?, down, None)? + x
    }

    struct Net {
        x: Var,
        first: Var,
        blocks: [Vec<Var>; 2],
    }

    impl Net {
        fn new() -> Net {
            let block = |seed| {
                let shapes = [&[6][..], &[6], &[9, 6], &[6, 9]];
                (seed..)
                    .zip(shapes)
                    .map(|(seed, shape)| var(seed, shape))
                    .collect()
            };
            Net {
                x: var(1, &[4, 6]),
                first: var(2, &[6, 6]),
                blocks: [block(3), block(7)],
            }
        }

        fn variables(&self) -> Vec<&Var> {
            let blocks = self.blocks.iter().flatten();
            [&self.x, &self.first].into_iter().chain(blocks).collect()
        }

        /// Gradients of all variables, and the number of operations recorded.
        fn run(&self, is_recomputed: bool, is_ours: bool) -> (GradStore, usize) {
            let recording = record();
            let mut y = linear(&self.x, &self.first, None).expect("forward");
            for block_variables in &self.blocks {
                let weights: Vec<Tensor> = block_variables
                    .iter()
                    .map(|var| var.as_tensor().clone())
                    .collect();
                y = if is_recomputed {
                    let own = weights.clone();
                    let again = move |x: &Tensor| block(x, &own, is_ours);
                    recomputed(&y, &weights, |x| block(x, &weights, is_ours), again)
                } else {
                    block(&y, &weights, is_ours)
                }
                .expect("forward");
            }
            let count = crate::recorded().len();
            // The gradient of the output differs by element.
            let loss = y
                .mul(&normal_numbers(9, (4, 6)).expect("weights"))
                .and_then(|y| y.sum_all());
            let store = backward(&loss.expect("a loss"), 1.0).expect("backward");
            drop(recording);
            (store, count)
        }
    }

    #[test]
    fn gradients_have_the_same_bits_and_activations_are_not_recorded() {
        let net = Net::new();
        let ((kept, all), (again, few)) = (net.run(false, true), net.run(true, true));
        // Operations that are composed of others are not all recorded, or as several.
        if !crate::are_composed(&net.x) {
            assert_eq!((all, few), (9, 3));
        } else if !net.x.device().is_cpu() {
            assert!(few == 3 && all > 9, "{all} {few}");
        }
        for (index, var) in net.variables().into_iter().enumerate() {
            let of = |store: &GradStore| bits(store.get(var).expect("a gradient"));
            assert_eq!(of(&kept), of(&again), "variable {index}");
        }
    }

    #[test]
    fn candles_operations_may_be_in_a_block() {
        let net = Net::new();
        let ((kept, _), (again, _)) = (net.run(false, false), net.run(true, false));
        for var in net.variables() {
            let of = |store: &GradStore| store.get(var).expect("a gradient").clone();
            let far = of(&kept)
                .sub(&of(&again))
                .and_then(|x| x.abs()?.max_all()?.to_scalar::<f32>());
            assert!(far.expect("a number") < 1e-5);
        }
    }

    #[test]
    fn a_block_on_inputs_has_gradients_unless_it_is_held() {
        let weight = var(1, &[3, 3]);
        let x = normal_numbers(2, (2, 3)).expect("x");
        let parameters = [weight.as_tensor().clone()];
        let own = parameters.clone();
        let run = |x: &Tensor| {
            let own = own.clone();
            let first = own.clone();
            recomputed(
                x,
                &parameters,
                move |x| linear(x, &first[0], None),
                move |x| linear(x, &own[0], None),
            )
        };
        let recording = record();
        let loss = run(&x).and_then(|y| y.sum_all()).expect("a loss");
        let store = backward(&loss, 1.0).expect("backward");
        drop(recording);
        let plain = linear(&x, &weight, None).and_then(|y| y.sum_all()?.backward());
        let plain = plain.expect("backward");
        let of = |store: &GradStore| bits(store.get(&weight).expect("a gradient"));
        assert_eq!(of(&store), of(&plain));
        // candle's pass does not collect what the block's parameters get.
        let error = loss.backward().expect_err("no gradients");
        assert!(
            error.to_string().contains("sconce_ops::backward"),
            "{error}"
        );
        let recording = record();
        let held = hold([weight.as_tensor()]);
        assert!(!run(&x).expect("forward").track_op());
        drop((held, recording));
        // Without a recording, nothing is recomputed.
        let store = run(&x)
            .and_then(|y| y.sum_all()?.backward())
            .expect("backward");
        assert_eq!(of(&store), of(&plain));
    }
}

//! Operations on an input, a weight and, where there is one, a bias: what candle has two kinds of is written once.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::aside::{hand_over, hand_over_own};
use super::tape::{apply2, apply3};

/// A tensor's elements and where they are among those stored.
pub(crate) type Stored<'a> = (&'a CpuStorage, &'a Layout);

/// Input, weight and bias.
pub(crate) type LayerInputs<'a> = (&'a Tensor, &'a Tensor, Option<&'a Tensor>);

/// An operation on an input, a weight and, where there is one, a bias.
pub(crate) trait LayerOp: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Computes the outputs.
    fn forward(
        &self,
        x: Stored<'_>,
        weight: Stored<'_>,
        bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)>;

    /// Computes the gradients of the inputs, each if wanted, from the outputs `y` and their gradient. Nothing else has the memory of the
    /// weight's.
    fn backward(
        &self,
        inputs: LayerInputs<'_>,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]>;
}

/// Applies a layer's operation, and records it.
pub(crate) fn apply_layer((x, weight, bias): LayerInputs<'_>, op: impl LayerOp) -> Result<Tensor> {
    match bias {
        Some(bias) => apply3(x, weight, bias, Layer(op)),
        None => apply2(x, weight, Layer(op)),
    }
}

struct Layer<T>(T);

impl<T: LayerOp> CustomOp3 for Layer<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let bias = Some((bias, bias_layout));
        self.0.forward((x, x_layout), (weight, weight_layout), bias)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, of_bias] = self.0.backward((x, weight, Some(bias)), y, gradient)?;
        Ok((
            hand_over(x, of_x),
            hand_over_own(weight, of_weight),
            hand_over(bias, of_bias),
        ))
    }
}

impl<T: LayerOp> CustomOp2 for Layer<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.0.forward((x, x_layout), (weight, weight_layout), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, _] = self.0.backward((x, weight, None), y, gradient)?;
        Ok((hand_over(x, of_x), hand_over_own(weight, of_weight)))
    }
}

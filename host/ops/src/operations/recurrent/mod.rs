//! Recurrent layers (LSTM and GRU) over sequences, one direction of one layer at a time.
//!
//! **Parts.** `cells`: one position of a sequence, and its gradients. `sequences`: all positions of some sequences.
//!
//! **Flow.** What the gates get of the inputs is computed before, for all positions at once, by a linear layer. Threads share the
//! sequences, and each goes from position to position of its own, multiplying by a weight that is packed once. The backward pass goes in
//! reverse, from the gates that the forward pass kept; one product over all positions then gives the weight's gradient.

mod cells;
mod sequences;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Result, Shape, Tensor, bail};

use super::linear::parameter_gradients;
use crate::autograd::aside::{hand_over, hand_over_own};
use crate::autograd::tape::apply3;
use crate::composed;
use crate::options::RecurrentKind;
use crate::storage::{cpu, new_tensor, numbers, ready, stored};
use sequences::Sequences;

/// States (batch, length, width) at all positions, from what the gates get of the inputs (batch, length, gates · width), the weight of the
/// state before (gates · width, width) and its bias (gates · width). With `reverse` the first state is that of the last position.
pub fn recurrent(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    kind: RecurrentKind,
    reverse: bool,
) -> Result<Tensor> {
    let (batch, length, all) = inputs.dims3()?;
    let (rows, width) = weight.dims2()?;
    if rows != all || rows != kind.gates() * width || bias.dims() != [rows] || length == 0 {
        bail!(
            "a recurrent layer of weight {:?} and bias {:?} was given {:?}",
            weight.dims(),
            bias.dims(),
            inputs.dims()
        )
    }
    let (inputs, weight, bias) = (ready(inputs)?, ready(weight)?, ready(bias)?);
    // Other types are for checks, and a layer without a state computes nothing.
    if composed::is_chosen(&inputs) || inputs.dtype() != DType::F32 || width == 0 {
        return composed::recurrent([&inputs, &weight, &bias], kind, reverse);
    }
    let op = RecurrentOp {
        sequences: Sequences {
            batch,
            length,
            width,
            kind,
            reverse,
        },
        kept: OnceLock::new(),
    };
    apply3(&inputs, &weight, &bias, op)
}

struct RecurrentOp {
    sequences: Sequences,
    /// What the backward pass needs of all positions.
    kept: OnceLock<Vec<f32>>,
}

impl CustomOp3 for RecurrentOp {
    fn name(&self) -> &'static str {
        "recurrent"
    }

    fn cpu_fwd(
        &self,
        inputs: &CpuStorage,
        inputs_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let Sequences {
            batch,
            length,
            width,
            ..
        } = self.sequences;
        let (y, kept) = self.sequences.forward(
            numbers(inputs, inputs_layout)?,
            numbers(weight, weight_layout)?,
            numbers(bias, bias_layout)?,
        );
        // The forward pass runs once per operation, so nothing was set before.
        drop(self.kept.set(kept));
        Ok((stored(y), (batch, length, width).into()))
    }

    fn bwd(
        &self,
        inputs: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let Some(kept) = self.kept.get() else {
            bail!("a recurrent layer has a backward pass without a forward pass")
        };
        let (of_inputs, of_states, before) = {
            let (y_guard, y_layout) = y.storage_and_layout();
            let (weight_guard, weight_layout) = weight.storage_and_layout();
            let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
            let y = numbers(cpu(&y_guard)?, y_layout)?;
            let g = numbers(cpu(&gradient_guard)?, gradient_layout)?;
            if g.len() != y.len() {
                bail!("a gradient has another size than what it is the gradient of")
            }
            let weight = numbers(cpu(&weight_guard)?, weight_layout)?;
            let (of_inputs, of_states) = self.sequences.backward(kept, y, g, weight);
            (of_inputs, of_states, self.sequences.states_before(y))
        };
        let before = new_tensor(before, y.shape())?;
        let of_inputs = new_tensor(of_inputs, inputs.shape())?;
        let of_states = match self.sequences.kind {
            RecurrentKind::Lstm => of_inputs.clone(),
            RecurrentKind::Gru => new_tensor(of_states, inputs.shape())?,
        };
        let [of_weight, of_bias] =
            parameter_gradients(&before, weight, &of_states, bias.track_op())?;
        Ok((
            hand_over(inputs, Some(of_inputs)),
            hand_over_own(weight, of_weight),
            hand_over(bias, of_bias),
        ))
    }
}

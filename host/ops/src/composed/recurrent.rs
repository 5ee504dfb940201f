//! LSTM and GRU, position by position; the backward pass goes through them in reverse, from the gates that the forward pass kept.

use candle_core::{D, Result, Tensor, bail};

use super::functions::sigmoid;
use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::options::RecurrentKind;

/// States at all positions.
pub(crate) fn recurrent(
    [inputs, weight, bias]: [&Tensor; 3],
    kind: RecurrentKind,
    reverse: bool,
) -> Result<Tensor> {
    let (_, length, _) = inputs.dims3()?;
    let dtype = inputs.dtype();
    let positions = 0..length;
    let pass = Pass {
        weight: seen(weight).detach().to_dtype(dtype)?,
        bias: seen(bias).detach().to_dtype(dtype)?,
        kind,
        order: if reverse {
            positions.rev().collect()
        } else {
            positions.collect()
        },
    };
    let (y, steps) = pass.forward(&seen(inputs).detach())?;
    custom_gradient(
        [inputs, weight, bias],
        y,
        move |[_, weight, bias], gradient, wanted| {
            let [of_inputs, of_weight, of_bias] = pass.backward(&steps, gradient)?;
            Ok([
                wanted[0].then_some(of_inputs),
                wanted[1]
                    .then(|| of_weight.to_dtype(weight.dtype()))
                    .transpose()?,
                wanted[2]
                    .then(|| of_bias.to_dtype(bias.dtype()))
                    .transpose()?,
            ])
        },
    )
}

/// One direction of a layer.
struct Pass {
    weight: Tensor,
    bias: Tensor,
    kind: RecurrentKind,
    /// Positions in the order in which they are visited.
    order: Vec<usize>,
}

/// What the backward pass needs of a position, each (batch, width).
struct Step {
    /// State before it.
    before: Tensor,
    gates: Vec<Tensor>,
    /// LSTM: the cell before it, and tanh of that after it. GRU: what the new gate gets of the state.
    kept: Vec<Tensor>,
}

/// The derivative of a sigmoid, from its output.
fn of_sigmoid(y: &Tensor) -> Result<Tensor> {
    y - y.sqr()?
}

/// The derivative of tanh, from its output.
fn of_tanh(y: &Tensor) -> Result<Tensor> {
    y.sqr()?.affine(-1.0, 1.0)
}

impl Pass {
    fn forward(&self, inputs: &Tensor) -> Result<(Tensor, Vec<Step>)> {
        let (batch, length, _) = inputs.dims3()?;
        let width = self.weight.dim(1)?;
        let zeros = Tensor::zeros((batch, width), inputs.dtype(), inputs.device())?;
        let (mut state, mut cell) = (zeros.clone(), zeros);
        let back = self.weight.t()?;
        let mut steps = Vec::with_capacity(length);
        let mut states: Vec<Option<Tensor>> = vec![None; length];
        for &position in &self.order {
            let of_inputs = inputs.narrow(1, position, 1)?.squeeze(1)?;
            let of_state = state.matmul(&back)?.broadcast_add(&self.bias)?;
            let before = state;
            let gate = |of: &Tensor, index: usize| of.narrow(1, index * width, width);
            let sum = |index: usize| gate(&of_inputs, index)? + gate(&of_state, index)?;
            let step = match self.kind {
                RecurrentKind::Lstm => {
                    let [input, forget, output] = [0, 1, 3].map(|gate| sigmoid(&sum(gate)?));
                    let (input, forget, output) = (input?, forget?, output?);
                    let new = sum(2)?.tanh()?;
                    let old = cell;
                    cell = ((&forget * &old)? + (&input * &new)?)?;
                    let shown = cell.tanh()?;
                    state = (&output * &shown)?;
                    Step {
                        before,
                        gates: vec![input, forget, new, output],
                        kept: vec![old, shown],
                    }
                }
                RecurrentKind::Gru => {
                    let (reset, update) = (sigmoid(&sum(0)?)?, sigmoid(&sum(1)?)?);
                    let remembered = gate(&of_state, 2)?.contiguous()?;
                    let new = (gate(&of_inputs, 2)? + (&reset * &remembered)?)?.tanh()?;
                    state = (&new + (&update * (&before - &new)?)?)?;
                    Step {
                        before,
                        gates: vec![reset, update, new],
                        kept: vec![remembered],
                    }
                }
            };
            steps.push(step);
            if let Some(slot) = states.get_mut(position) {
                *slot = Some(state.clone());
            }
        }
        let states: Vec<Tensor> = states.into_iter().flatten().collect();
        Ok((Tensor::stack(&states, 1)?, steps))
    }

    /// Gradients of the inputs, of the weight and of the bias.
    fn backward(&self, steps: &[Step], gradient: &Tensor) -> Result<[Tensor; 3]> {
        let gradient = gradient.to_dtype(self.weight.dtype())?;
        let (batch, length, width) = gradient.dims3()?;
        let zeros = Tensor::zeros((batch, width), gradient.dtype(), gradient.device())?;
        // Of the state and of the cell after the position at hand, from those after it.
        let (mut of_state, mut of_cell) = (zeros.clone(), zeros);
        let mut of_inputs: Vec<Option<Tensor>> = vec![None; length];
        let mut of_weight = self.weight.zeros_like()?;
        let mut of_bias = self.bias.zeros_like()?;
        for (&position, step) in self.order.iter().zip(steps).rev() {
            let own = gradient.narrow(1, position, 1)?.squeeze(1)?;
            let of = (own + &of_state)?;
            let (of_gates, of_gates_of_state, direct) =
                match (self.kind, &step.gates[..], &step.kept[..]) {
                    (RecurrentKind::Lstm, [input, forget, new, output], [old, shown]) => {
                        let all = (&of_cell + ((&of * output)? * of_tanh(shown)?)?)?;
                        of_cell = (&all * forget)?;
                        let gates = [
                            ((&all * new)? * of_sigmoid(input)?)?,
                            ((&all * old)? * of_sigmoid(forget)?)?,
                            ((&all * input)? * of_tanh(new)?)?,
                            ((&of * shown)? * of_sigmoid(output)?)?,
                        ];
                        let gates = Tensor::cat(&gates, D::Minus1)?;
                        (gates.clone(), gates, None)
                    }
                    (RecurrentKind::Gru, [reset, update, new], [remembered]) => {
                        let of_new = ((&of * update.affine(-1.0, 1.0)?)? * of_tanh(new)?)?;
                        let of_update = ((&of * (&step.before - new)?)? * of_sigmoid(update)?)?;
                        let of_reset = ((&of_new * remembered)? * of_sigmoid(reset)?)?;
                        let of_inputs = [&of_reset, &of_update, &of_new];
                        let of_remembered = (&of_new * reset)?;
                        let of_state = [&of_reset, &of_update, &of_remembered];
                        (
                            Tensor::cat(&of_inputs, D::Minus1)?,
                            Tensor::cat(&of_state, D::Minus1)?,
                            Some((&of * update)?),
                        )
                    }
                    _ => bail!("a recurrent layer lacks what its forward pass has kept"),
                };
            of_state = of_gates_of_state.matmul(&self.weight)?;
            if let Some(direct) = direct {
                of_state = (of_state + direct)?;
            }
            of_weight = (of_weight + of_gates_of_state.t()?.matmul(&step.before)?)?;
            of_bias = (of_bias + of_gates_of_state.sum(0)?)?;
            if let Some(slot) = of_inputs.get_mut(position) {
                *slot = Some(of_gates);
            }
        }
        let of_inputs: Vec<Tensor> = of_inputs.into_iter().flatten().collect();
        Ok([Tensor::stack(&of_inputs, 1)?, of_weight, of_bias])
    }
}

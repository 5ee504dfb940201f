//! Layers that run one after the other, and residual connections.

use candle_core::{Result, Tensor};

use super::fusion::Fused;
use crate::layers::{FusionRole, Linear};
use crate::onnx::{Graph, OnnxError, Value};
use crate::ops::{self, Function};
use crate::pass::{HeadUse, located};
use crate::{Activation, Layer, ModuleInfo, Pass};

/// Layers that run one after the other; those with a name are modules.
#[derive(Default)]
pub struct Sequence {
    steps: Vec<SequenceStep>,
}

struct SequenceStep {
    module: Option<ModuleInfo>,
    layer: Box<dyn Layer>,
    /// Fused operation that starts with this layer, and the number of layers it covers.
    fused: Option<(usize, Fused)>,
}

impl SequenceStep {
    /// Whether this step, a linear layer of x at the model's end, can be left to the loss: its outputs are many, and no hook is
    /// attached to it.
    fn may_be_left(&self, linear: &Linear, x: &Tensor, pass: &mut Pass<'_>) -> bool {
        !self.is_heard(pass) && ops::is_in_parts(x, &linear.parameters())
    }

    /// Whether a hook is attached to this step.
    fn is_heard(&self, pass: &mut Pass<'_>) -> bool {
        self.module.as_ref().is_some_and(|it| pass.listens(it))
    }
}

/// Largest number of layers in a fused operation.
const MOST: usize = 3;

impl Sequence {
    /// Appends a layer.
    pub fn push(&mut self, module: Option<ModuleInfo>, layer: Box<dyn Layer>) {
        self.steps.push(SequenceStep {
            module,
            layer,
            fused: None,
        });
        for index in self.steps.len().saturating_sub(MOST)..self.steps.len() {
            let (_, rest) = self.steps.split_at(index);
            let roles: Vec<_> = rest.iter().map(|step| step.layer.role()).collect();
            let fused = Fused::of(&roles);
            if let Some(step) = self.steps.get_mut(index) {
                step.fused = fused;
            }
        }
    }

    /// Returns the fused operation at the start of `steps`, and the steps after it; none if there is
    /// no such operation or a hook is attached to one of its modules.
    fn fused<'a>(
        steps: &'a [SequenceStep],
        pass: &mut Pass<'_>,
    ) -> Option<(&'a [SequenceStep], &'a Fused)> {
        let (count, fused) = steps.first()?.fused.as_ref()?;
        let (inside, rest) = steps.split_at_checked(*count)?;
        let is_heard = inside.iter().any(|step| step.is_heard(pass));
        (!is_heard).then_some((rest, fused))
    }

    /// Whether the first of these steps reads a tensor of as many rows as x only as factors of products that round it: no hook sees
    /// it there, nor does the last step take some of its rows.
    fn round(steps: &[SequenceStep], x: &Tensor, head: HeadUse, pass: &mut Pass<'_>) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return false;
        };
        let rows = x.dims().iter().rev().skip(1).product();
        step.layer.rounds_input(rows)
            && (head == HeadUse::Whole || !rest.is_empty())
            && !step.is_heard(pass)
    }
}

impl Layer for Sequence {
    fn continues(&self) -> bool {
        self.steps.iter().all(|step| step.layer.continues())
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        let mut steps = &self.steps[..];
        let head = pass.take_head_use();
        loop {
            if let ([step], true) = (steps, head != HeadUse::Whole)
                && let FusionRole::Linear(linear) = step.layer.role()
            {
                match head {
                    HeadUse::LastPosition if x.rank() == 3 => {
                        x = x.narrow(1, x.dim(1)?.saturating_sub(1), 1)?.contiguous()?;
                    }
                    HeadUse::Left if step.may_be_left(linear, &x, pass) => {
                        pass.set_left_head(linear.parameters());
                        return Ok(x);
                    }
                    _ => {}
                }
            }
            if let Some((rest, fused)) = Sequence::fused(steps, pass) {
                let is_rounded = fused.can_round_outputs() && Sequence::round(rest, &x, head, pass);
                let output = if is_rounded {
                    ops::rounding_outputs(|| fused.forward(&x, pass))
                } else {
                    fused.forward(&x, pass)
                };
                x = output.map_err(|error| {
                    match steps.first().and_then(|step| step.module.as_ref()) {
                        Some(module) => located(error, module),
                        None => error,
                    }
                })?;
                steps = rest;
                continue;
            }
            let Some((step, rest)) = steps.split_first() else {
                return Ok(x);
            };
            let SequenceStep { module, layer, .. } = step;
            let is_rounded = layer.can_round_outputs()
                && Sequence::round(rest, &x, head, pass)
                && !step.is_heard(pass);
            let forward = |x: &Tensor, pass: &mut Pass<'_>| {
                if is_rounded {
                    ops::rounding_outputs(|| layer.forward(x, pass))
                } else {
                    layer.forward(x, pass)
                }
            };
            x = match module {
                Some(module) => pass.module(module, &x, forward)?,
                None => forward(&x, pass)?,
            };
            steps = rest;
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let mut x = x.clone();
        for SequenceStep { module, layer, .. } in &self.steps {
            x = match module {
                Some(module) => graph.within(&module.name, |graph| layer.onnx(graph, &x))?,
                None => layer.onnx(graph, &x)?,
            };
        }
        Ok(x)
    }
}

/// A residual connection: activation(layers(x) + shortcut(x)).
pub struct Residual {
    /// Main branch.
    pub layers: Sequence,
    /// Branch for the input; without layers it is the identity.
    pub shortcut: Sequence,
    /// Nonlinearity applied to the sum.
    pub activation: Activation,
}

impl Layer for Residual {
    fn continues(&self) -> bool {
        self.layers.continues() && self.shortcut.continues()
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let direct = self.shortcut.forward(x, pass)?;
        let layers = self.layers.forward(x, pass)?;
        if self.activation.function() == Some(Function::Relu) {
            return ops::add_relu(&layers, &direct);
        }
        self.activation.forward(&ops::add(&layers, &direct)?)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let direct = self.shortcut.onnx(graph, x)?;
        let layers = self.layers.onnx(graph, x)?;
        let sum = graph.of_two("Add", &layers, &direct);
        self.activation.onnx(graph, &sum)
    }
}

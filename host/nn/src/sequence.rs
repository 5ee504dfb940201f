//! Layers one after the other, and layers beside each other.

use candle_core::{Result, Tensor};

use super::fusion::Fused;
use super::{Activation, Layer, ModuleInfo, Pass, ops};

/// Layers one after the other, each a module where it has a name.
#[derive(Default)]
pub struct Sequence {
    steps: Vec<Step>,
}

struct Step {
    module: Option<ModuleInfo>,
    layer: Box<dyn Layer>,
    /// This layer and those behind it in one, and how many they are.
    fused: Option<(usize, Fused)>,
}

/// The most layers that are fused.
const MOST: usize = 3;

impl Sequence {
    /// A layer more.
    pub fn push(&mut self, module: Option<ModuleInfo>, layer: Box<dyn Layer>) {
        self.steps.push(Step {
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

    /// The layers that begin `steps` in one, where there are such and nobody listens at them.
    fn fused<'a>(steps: &'a [Step], pass: &mut Pass<'_>) -> Option<(&'a [Step], &'a Fused)> {
        let (count, fused) = steps.first()?.fused.as_ref()?;
        let (inside, rest) = steps.split_at_checked(*count)?;
        let mut modules = inside.iter().filter_map(|step| step.module.as_ref());
        let is_heard = modules.any(|module| pass.listens(module));
        (!is_heard).then_some((rest, fused))
    }
}

impl Layer for Sequence {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        let mut steps = &self.steps[..];
        loop {
            if let Some((rest, fused)) = Sequence::fused(steps, pass) {
                (x, steps) = (fused.forward(&x)?, rest);
                continue;
            }
            let Some((Step { module, layer, .. }, rest)) = steps.split_first() else {
                return Ok(x);
            };
            x = match module {
                Some(module) => pass.module(module, &x, |x, pass| layer.forward(x, pass))?,
                None => layer.forward(&x, pass)?,
            };
            steps = rest;
        }
    }
}

/// activation(layers(x) + shortcut(x)).
pub struct Residual {
    /// The layers.
    pub layers: Sequence,
    /// The input's way past them; without layers it goes as it is.
    pub shortcut: Sequence,
    /// The nonlinearity on the sum.
    pub activation: Activation,
}

impl Layer for Residual {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let direct = self.shortcut.forward(x, pass)?;
        let sum = ops::add(&self.layers.forward(x, pass)?, &direct)?;
        self.activation.forward(&sum)
    }
}

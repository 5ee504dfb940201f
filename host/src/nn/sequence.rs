//! Layers one after the other, and layers beside each other.

use candle_core::{Result, Tensor};

use super::{Activation, Layer, ModuleInfo, Pass, ops};

/// Layers one after the other, each a module where it has a name.
#[derive(Default)]
pub struct Sequence {
    steps: Vec<(Option<ModuleInfo>, Box<dyn Layer>)>,
}

impl Sequence {
    /// A layer more.
    pub fn push(&mut self, module: Option<ModuleInfo>, layer: Box<dyn Layer>) {
        self.steps.push((module, layer));
    }
}

impl Layer for Sequence {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        for (module, layer) in &self.steps {
            x = match module {
                Some(module) => pass.module(module, &x, |x, pass| layer.forward(x, pass))?,
                None => layer.forward(&x, pass)?,
            };
        }
        Ok(x)
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

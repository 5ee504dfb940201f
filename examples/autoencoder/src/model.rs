//! The model: encodes pixels as a few values and decodes them again.

use candle_core::{Module, Result, Tensor};
use candle_nn::{Linear, VarBuilder, linear};
use sconce::nn::{ModuleInfo, Pass};

/// Two linear layers that encode, two that decode.
pub(crate) struct Autoencoder {
    layers: [(ModuleInfo, Linear); 4],
}

impl Autoencoder {
    pub(crate) fn new(
        pixels: usize,
        hidden: usize,
        code: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let layer = |name: &str, inputs, outputs| {
            let module = ModuleInfo::new(name, "linear");
            Ok::<_, candle_core::Error>((module, linear(inputs, outputs, vb.pp(name))?))
        };
        Ok(Autoencoder {
            layers: [
                layer("encoder.0", pixels, hidden)?,
                layer("encoder.1", hidden, code)?,
                layer("decoder.0", code, hidden)?,
                layer("decoder.1", hidden, pixels)?,
            ],
        })
    }

    /// Maps (batch, pixels) to (batch, pixels). Each layer runs through the pass, so that hooks can
    /// listen at it.
    pub(crate) fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mut x = x.clone();
        for (index, (module, layer)) in self.layers.iter().enumerate() {
            x = pass.module(module, &x, |x, _| layer.forward(x))?;
            let is_hidden = index % 2 == 0;
            if is_hidden {
                x = x.relu()?;
            }
        }
        Ok(x)
    }

    pub(crate) fn modules(&self) -> Vec<ModuleInfo> {
        self.layers
            .iter()
            .map(|(module, _)| module.clone())
            .collect()
    }
}

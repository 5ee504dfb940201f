//! The task: to give its input again.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use sconce::data::{Batch, Dataset, Splits};
use sconce::nn::{ModuleInfo, Pass, with_var_builder};
use sconce::parameters::Parameters;
use sconce::task::Task;
use sconce_plugin_api::Phase;
use serde::Deserialize;

use crate::model::Autoencoder;

/// What the manifest says under `task`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The width between pixels and code.
    hidden: usize,
    /// How many numbers an image is squeezed into.
    code: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            hidden: 128,
            code: 16,
        }
    }
}

/// Reconstruction of images by way of a code.
pub(crate) struct Reconstruction {
    model: Autoencoder,
    parameters: Parameters,
    data: Splits,
    metrics: [String; 1],
}

impl Reconstruction {
    pub(crate) fn new(config: &Config, seed: u64, data: Splits) -> Result<Reconstruction> {
        let pixels = data.train.sample_shape().iter().product();
        let mut parameters = Parameters::new(seed, DType::F32, &Device::Cpu);
        let model = with_var_builder(&mut parameters, |vb| {
            Autoencoder::new(pixels, config.hidden, config.code, &vb)
        })?;
        Ok(Reconstruction {
            model,
            parameters,
            data,
            metrics: ["explained".to_owned()],
        })
    }
}

impl Task for Reconstruction {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        self.data.of(phase)
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.model.forward(&batch.inputs.flatten_from(1)?, pass)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        outputs
            .sub(&batch.inputs.flatten_from(1)?)?
            .sqr()?
            .mean_all()
    }

    fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// Sums of squared errors, of pixels, of their squares, and how many there are.
    fn sum_count(&self) -> usize {
        4
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        let pixels = batch.inputs.flatten_from(1)?.to_dtype(DType::F64)?;
        let errors = outputs.to_dtype(DType::F64)?.sub(&pixels)?.sqr()?;
        let found = [
            errors.sum_all()?.to_scalar::<f64>()?,
            pixels.sum_all()?.to_scalar::<f64>()?,
            pixels.sqr()?.sum_all()?.to_scalar::<f64>()?,
            pixels.elem_count() as f64,
        ];
        for (sum, found) in sums.iter_mut().zip(found) {
            *sum += found;
        }
        Ok(())
    }

    /// How much of the pixels' variance is explained.
    fn values(&self, sums: &[f64], _samples: f64, values: &mut [f64]) {
        if let (&[errors, sum, squares, count], [explained]) = (sums, values) {
            *explained = 1.0 - errors / (squares - sum * sum / count);
        }
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.model.modules()
    }
}

//! The reconstruction task: reproduces its input.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use sconce::data::{Batch, Dataset, Preprocessing, Splits};
use sconce::nn::{ModuleInfo, Pass, with_var_builder};
use sconce::parameters::Parameters;
use sconce::task::{Task, split_of};
use sconce_plugin_api::Phase;
use serde::Deserialize;

use crate::model::Autoencoder;

/// The manifest's `task` section.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Width of the hidden layers between pixels and code. Default 128.
    hidden: usize,
    /// Number of values that encode an image. Default 16.
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

/// Reconstruction of images from a low-dimensional code, with the mean squared error as its loss.
pub(crate) struct Reconstruction {
    model: Autoencoder,
    parameters: Parameters,
    data: Splits,
    metrics: [String; 1],
}

impl Reconstruction {
    pub(crate) fn new(
        config: &Config,
        seed: u64,
        data: Splits,
        device: &Device,
    ) -> Result<Reconstruction> {
        let pixels = data.train.sample_shape().iter().product();
        let mut parameters = Parameters::new(seed, DType::F32, device);
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
        split_of(&self.data, phase)
    }

    fn preprocessing(&self) -> Option<Arc<Preprocessing>> {
        Some(Arc::clone(&self.data.preprocessing))
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

    /// Sums of squared errors, of pixels and of squared pixels, and the number of pixels.
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

    /// The fraction of the pixels' variance that is explained.
    fn values(&self, sums: &[f64], _samples: f64, values: &mut [f64]) {
        if let (&[errors, sum, squares, count], [explained]) = (sums, values) {
            *explained = 1.0 - errors / (squares - sum * sum / count);
        }
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.model.modules()
    }
}

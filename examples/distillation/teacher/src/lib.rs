//! The `teacher` hook: publishes a trained perceptron's logits for each training batch.
//!
//! It publishes them as `teacher` at `after_forward`; a task whose loss reads them learns from them
//! (see `examples/distillation/src/main.rs`). How the teacher is computed is up to the plugin: here
//! by a few loops over the weights of a Sconce run, elsewhere by any library the plugin links.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use safetensors::SafeTensors;
use sconce_plugin_api::{bail, prelude::*};

/// The entry's `config` in the manifest.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Weights file of a run with the model `mlp` and the activation `relu`; relative to the
    /// directory in which the host was started.
    checkpoint: PathBuf,
}

/// A linear layer: row-major weights (outputs, inputs), and biases.
struct Layer {
    weights: Vec<f32>,
    biases: Vec<f32>,
}

struct Teacher {
    layers: Vec<Layer>,
}

#[hook(
    name = "teacher",
    about = "Publishes a trained perceptron's logits for each training batch.",
    priority = HIGH,
    requires = ["sconce.tensors/1", "sconce.values/1"],
    ranks = "all"
)]
impl Hook for Teacher {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        let path = config.checkpoint;
        if !path.exists() {
            bail!(
                "the teacher's weights `{}` aren't there: train it first, by a run of the model `mlp` with the activation `relu`, here \
                 `sconce run examples/digits/run.json`",
                path.display()
            );
        }
        let bytes = std::fs::read(&path)
            .with_context(|| format!("can't read the weights `{}`", path.display()))?;
        let file = SafeTensors::deserialize(&bytes)
            .with_context(|| format!("`{}` is not a safetensors file", path.display()))?;
        let mut layers = Vec::new();
        while let Ok(weights) = file.tensor(&format!("fc{}.weight", layers.len() + 1)) {
            let biases = file.tensor(&format!("fc{}.bias", layers.len() + 1))?;
            layers.push(Layer {
                weights: numbers(weights.data()),
                biases: numbers(biases.data()),
            });
        }
        if layers.is_empty() {
            bail!("`{}` has no parameter `fc1.weight`", path.display());
        }
        Ok(Teacher { layers })
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let inputs = task.inputs()?;
        let samples = task.batch_size().max(1) as usize;
        let logits = self.logits(&inputs.to_vec::<f32>()?, samples)?;
        let classes = logits.len() / samples;
        task.publish_tensor("teacher", &[samples, classes], &logits, Keep::Batch)
    }
}

impl Teacher {
    fn logits(&self, inputs: &[f32], samples: usize) -> Result<Vec<f32>> {
        let mut values = inputs.to_vec();
        for (index, layer) in self.layers.iter().enumerate() {
            let width = layer.weights.len() / layer.biases.len().max(1);
            if values.len() != width * samples {
                bail!("layer {} takes {width} numbers a sample", index + 1);
            }
            if index > 0 {
                for value in &mut values {
                    *value = value.max(0.0);
                }
            }
            values = layer.forward(&values, width);
        }
        Ok(values)
    }
}

impl Layer {
    fn forward(&self, inputs: &[f32], width: usize) -> Vec<f32> {
        let mut outputs = Vec::with_capacity(inputs.len() / width.max(1) * self.biases.len());
        for sample in inputs.chunks_exact(width.max(1)) {
            for (row, bias) in self.weights.chunks_exact(width.max(1)).zip(&self.biases) {
                let product: f32 = row.iter().zip(sample).map(|(w, x)| w * x).sum();
                outputs.push(product + bias);
            }
        }
        outputs
    }
}

/// Decodes little-endian `f32` values.
fn numbers(bytes: &[u8]) -> Vec<f32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().copied().map(f32::from_le_bytes).collect()
}

export_plugin!(Teacher);

//! The data and the model of both loops.

use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Linear, Module, VarBuilder, linear};
use serde_json::json;

/// Batches: inputs of shape (samples, 784) and the numbers of their classes.
pub(crate) type Batches = Vec<(Tensor, Tensor)>;

/// Samples of a batch.
const SIZE: usize = 64;

/// MNIST's digits if its files are there, drawn ones of the same size otherwise: batches for training and for validation.
pub(crate) fn load(directory: &Path) -> std::result::Result<(Batches, Batches), Box<dyn Error>> {
    let images = directory.join("mnist-10k-images-idx3-ubyte.gz");
    let labels = directory.join("mnist-10k-labels-idx1-ubyte.gz");
    let config = if images.exists() {
        json!({"kind": "idx", "images": images, "labels": labels, "val": {"count": 1000}})
    } else {
        json!({"kind": "synthetic-digits", "train": 2000, "val": 500})
    };
    let splits = sconce_data::load(&serde_json::from_value(config)?, Path::new("."), 1)?;
    let validation = splits.val.ok_or("the data have no validation")?;
    Ok((batches(&*splits.train)?, batches(&*validation)?))
}

fn batches(data: &dyn sconce_data::Dataset) -> std::result::Result<Batches, Box<dyn Error>> {
    let indices: Vec<u32> = (0..u32::try_from(data.len())?).collect();
    let batch = |indices: &[u32]| {
        let batch = data.gather(indices, 0)?;
        Ok((batch.inputs.flatten_from(1)?, batch.targets))
    };
    indices.chunks(SIZE).map(batch).collect()
}

/// Two layers, as in candle's own example.
pub(crate) struct Model {
    first: Linear,
    second: Linear,
}

impl Model {
    /// The model for inputs of this size.
    pub(crate) fn new(inputs: usize, variables: &VarBuilder<'_>) -> Result<Model> {
        Ok(Model {
            first: linear(inputs, 100, variables.pp("first"))?,
            second: linear(100, 10, variables.pp("second"))?,
        })
    }
}

impl Module for Model {
    fn forward(&self, inputs: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(inputs)?.relu()?)
    }
}

/// How many outputs are largest at the target.
pub(crate) fn correct(logits: &Tensor, targets: &Tensor) -> Result<f64> {
    let hits = logits.argmax(1)?.eq(&targets.to_dtype(DType::U32)?)?;
    let hits = hits.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
    Ok(f64::from(hits))
}

/// The device of both loops.
pub(crate) const DEVICE: Device = Device::Cpu;

//! Training steps in two precisions: the tasks of `shared/peers/torch_tasks.py`, and a small `ResNet`.
//!
//! Not to be timed: what is generic is compiled with this crate, at another level than in the program. `tests/against_pytorch.py` and
//! `tests/busy.py` time manifests.

use std::cell::Cell;

use candle_core::{DType, Device, Result, Tensor};
use sconce::data::Targets;
use sconce::gradients::Gradients;
use sconce::loss::cross_entropy;
use sconce::nn::{Model, ModelConfig, Network, Pass, Signal, ops};
use sconce::parameters::Parameters;
use sconce::random;
use serde_json::json;

/// A model, and one batch of random inputs and targets.
pub struct Step {
    network: Network,
    parameters: Parameters,
    inputs: Tensor,
    targets: Tensor,
    /// Recording of the last forward pass, for its backward pass.
    recording: Cell<Option<ops::Recording>>,
}

/// Names of all tasks.
pub const TASKS: [&str; 4] = ["mlp", "lenet", "gpt", "resnet"];

impl Step {
    /// Creates a task by name, with its own batch size unless `batch` is given.
    ///
    /// # Panics
    ///
    /// If there is no task with this name.
    pub fn new(task: &str, batch: Option<usize>) -> Step {
        Step::with(task, batch, DType::F32)
    }

    /// As [`new`](Step::new), with parameters and inputs of another type, whose values are rounded
    /// to `f32`.
    ///
    /// # Panics
    ///
    /// If there is no task with this name.
    pub fn with(task: &str, batch: Option<usize>, dtype: DType) -> Step {
        let config = match task {
            "mlp" => json!({"kind": "mlp", "hidden": [256]}),
            "lenet" => json!({"kind": "convnet", "channels": [32, 64], "kernel": 5,
                "conv_activation": "identity", "hidden": [1024]}),
            "gpt" => json!({"kind": "gpt"}),
            "resnet" => json!({"kind": "resnet", "blocks": [1, 1], "width": 16}),
            other => panic!("no task {other:?}; there are {TASKS:?}"),
        };
        let config: ModelConfig = serde_json::from_value(config).expect("a model");
        let names = |count: usize| (0..count).map(|class| class.to_string()).collect();
        let batch = batch.unwrap_or(if task == "gpt" { 12 } else { 64 });
        let (signal, outputs) = if task == "gpt" {
            (
                Signal::tokens(64, 256),
                Targets::ClassPerPosition(names(256)),
            )
        } else {
            (Signal::numbers([1, 28, 28]), Targets::Class(names(10)))
        };
        let mut parameters = Parameters::new(0, dtype, &Device::Cpu);
        let network = config
            .build(&mut parameters, &signal, &outputs)
            .expect("a network");
        let mut stream = random::stream(0, "step", 0, 0);
        let (inputs, targets) = if task == "gpt" {
            let mut tokens = || -> Vec<u32> {
                let token = |_| (stream.unit() * 256.0) as u32;
                (0..batch * 64).map(token).collect()
            };
            let tensor = |tokens| Tensor::from_vec(tokens, (batch, 64), &Device::Cpu);
            (tensor(tokens()), tensor(tokens()))
        } else {
            let pixels = (0..batch * 784).map(|_| stream.unit() as f32 * 2.0 - 1.0);
            let pixels: Vec<f32> = pixels.collect();
            let classes: Vec<u32> = (0..batch as u32).map(|index| index % 10).collect();
            (
                Tensor::from_vec(pixels, (batch, 1, 28, 28), &Device::Cpu),
                Tensor::from_vec(classes, batch, &Device::Cpu),
            )
        };
        let inputs = inputs.expect("inputs");
        let inputs = if task == "gpt" {
            inputs
        } else {
            inputs.to_dtype(dtype).expect("inputs")
        };
        Step {
            network,
            parameters,
            inputs,
            targets: targets.expect("targets"),
            recording: Cell::default(),
        }
    }

    /// The model's parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Runs the forward pass; returns the loss.
    pub fn forward(&self) -> Result<Tensor> {
        drop(self.recording.take());
        self.recording.set(Some(ops::record()));
        let mut pass = Pass::training();
        let outputs = self.network.forward(&self.inputs, &mut pass)?;
        cross_entropy(&outputs, &self.targets)
    }

    /// Runs the backward pass; returns the gradients.
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        Ok(Gradients::from_store(
            &self.parameters,
            &ops::backward(loss, 1.0)?,
        ))
    }
}

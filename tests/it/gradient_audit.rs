//! The gradient audit stops a model that cannot learn, in its first iteration.

use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor};
use sconce::data::{self, Batch, DataConfig, Dataset, Splits};
use sconce::init::Init;
use sconce::loss;
use sconce::nn::{Linear, Pass, layers};
use sconce::optim::AdamW;
use sconce::parameters::Parameters;
use sconce::run::{RunError, RunOutcome, TrainingPlan};
use sconce::task::Task;
use sconce_plugin_api::Phase;
use sconce_tests::in_process::train_with;
use serde_json::json;

/// A norm of a user's choice.
enum Norm {
    Candles(candle_nn::LayerNorm),
    Sconces(layers::LayerNorm),
}

/// A user's own task: fc1, a norm, fc2, over synthetic digits.
struct Normed {
    parameters: Parameters,
    fc1: Linear,
    norm: Norm,
    fc2: Linear,
    data: Splits,
}

impl Normed {
    fn new(candles: bool) -> Normed {
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        let fc1 = linear(&mut parameters, "fc1", 784, 8);
        let mut scope = parameters.scope("norm");
        let norm = if candles {
            let weight = scope.parameter("weight", &[8], Init::ONES).expect("weight");
            let bias = scope.parameter("bias", &[8], Init::ZEROS).expect("bias");
            Norm::Candles(candle_nn::LayerNorm::new(weight, bias, 1e-5))
        } else {
            Norm::Sconces(layers::LayerNorm::new(&mut scope, 8, 1e-5).expect("a norm"))
        };
        let fc2 = linear(&mut parameters, "fc2", 8, 10);
        let config = json!({"kind": "synthetic-digits", "train": 40, "val": 0, "test": 0});
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        let data = data::load(&config, std::path::Path::new(""), 5).expect("data");
        Normed {
            parameters,
            fc1,
            norm,
            fc2,
            data,
        }
    }

    fn train(&mut self, plan: &TrainingPlan) -> sconce::run::RunReport {
        let mut optimizer = AdamW::new(1e-3);
        train_with(self, &mut optimizer, plan, |_| Vec::new())
    }
}

fn linear(parameters: &mut Parameters, name: &str, inputs: usize, outputs: usize) -> Linear {
    Linear::new(&mut parameters.scope(name), inputs, outputs).expect("a layer")
}

impl Task for Normed {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        (phase == Phase::Train).then(|| Arc::clone(&self.data.train) as Arc<dyn Dataset>)
    }

    fn metrics(&self) -> &[String] {
        &[]
    }

    fn forward(&mut self, batch: &Batch, _pass: &mut Pass<'_>) -> Result<Tensor> {
        let x = self.fc1.forward(&batch.inputs.flatten_from(1)?)?;
        let x = match &self.norm {
            Norm::Candles(norm) => norm.forward(&x)?,
            Norm::Sconces(norm) => norm.forward(&x)?,
        };
        self.fc2.forward(&x.relu()?)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        loss::cross_entropy(outputs, &batch.targets)
    }

    fn measure(&mut self, _batch: &Batch, _outputs: &Tensor, _sums: &mut [f64]) -> Result<()> {
        Ok(())
    }
}

fn plan() -> TrainingPlan {
    TrainingPlan {
        batch_size: 10,
        ..TrainingPlan::default()
    }
}

#[test]
fn candles_layer_norm_is_stopped_in_the_first_iteration() {
    let report = Normed::new(true).train(&plan());
    let RunOutcome::Failed(RunError::Audit(problem)) = &report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert_eq!((report.iterations, report.updates), (0, 0));
    for words in [
        "4 of 6 parameters got no gradient in the first iteration: \
         `fc1.weight`, `fc1.bias`, `norm.weight`, `norm.bias`\n",
        "near the last of them, `norm.bias`, look for candle's `LayerNorm` \
         (instead: `sconce::nn::layers::LayerNorm`)",
        "`ops::softmax_last_dim`",
        "`train.allow_missing_gradients`",
    ] {
        assert!(problem.contains(words), "{words} is not in\n{problem}");
    }
}

#[test]
fn sconces_layer_norm_and_parameters_allowed_by_name_pass() {
    let report = Normed::new(false).train(&plan());
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{report:?}"
    );
    assert_eq!(report.updates, 4);
    let mut task = Normed::new(true);
    let weight = |task: &Normed| -> Vec<f32> {
        let weight = task.parameters.get("norm.weight").expect("registered");
        weight.tensor().to_vec1().expect("numbers")
    };
    let before = weight(&task);
    let allowed = ["fc1.weight", "fc1.bias", "norm.weight", "norm.bias"];
    let plan = TrainingPlan {
        allow_missing_gradients: allowed.map(str::to_owned).to_vec(),
        ..plan()
    };
    let report = task.train(&plan);
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{report:?}"
    );
    assert_eq!(
        weight(&task),
        before,
        "what has no gradient is not stepped, nor decayed"
    );
}

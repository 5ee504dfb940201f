//! Many logits are computed in parts by the loss, unless a hook reads them: with the same bits.

use candle_core::{DType, Device};
use sconce::data::{self, DataConfig};
use sconce::loss::LossConfig;
use sconce::metric::MetricConfig;
use sconce::nn::{ModelConfig, Pass};
use sconce::optim::AdamW;
use sconce::parameters::Parameters;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::{Supervised, Task};
use sconce_plugin_api::prelude::*;
use sconce_tests::Workplace;
use sconce_tests::in_process::{bits, linked, train_with};
use serde_json::{Value, json};

/// So many that 128 rows of logits are 64 MiB.
const VOCABULARY: u32 = 1 << 17;

/// Tokens in a sample; two samples are a batch of 128 rows.
const CONTEXT: u32 = 64;

/// Looks at the outputs of each batch.
struct Looker;

#[hook(name = "looker", about = "Looks at outputs.")]
impl Hook for Looker {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Looker)
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let outputs = task.outputs()?;
        let shape = [i64::from(CONTEXT), i64::from(VOCABULARY)];
        assert!(outputs.shape().ends_with(&shape), "they are others");
        Ok(())
    }
}

/// A head, tied or of its own, over embeddings of tokens, with a loss and metrics.
fn task(place: &Workplace, head: &Value, loss: &Value) -> Supervised {
    let tokens = (0..=8 * CONTEXT).map(|index| index * 7919 % VOCABULARY);
    let bytes: Vec<u8> = tokens.flat_map(u32::to_le_bytes).collect();
    std::fs::write(place.path("tokens.bin"), bytes).expect("a file");
    let data: DataConfig = serde_json::from_value(json!({
        "kind": "tokens", "files": ["tokens.bin"], "dtype": "u32", "vocabulary": VOCABULARY, "context": CONTEXT,
        "val": {"fraction": 0.3},
    }))
    .expect("a config");
    let data = data::load(&data, &place.path(""), 5).expect("data");
    let model: ModelConfig = serde_json::from_value(json!({"kind": "sequential", "layers": [
        {"kind": "embedding", "name": "wte", "width": 16},
        {"kind": "layer-norm", "name": "norm"},
        head,
    ]}))
    .expect("a model");
    let mut parameters = Parameters::new(3, DType::F32, &Device::Cpu);
    let built = model.build(&mut parameters, &data.train.signal(), data.train.targets());
    let loss: LossConfig = serde_json::from_value(loss.clone()).expect("a loss");
    let metrics: Vec<MetricConfig> =
        serde_json::from_value(json!(["accuracy", "perplexity"])).expect("metrics");
    let model = Box::new(built.expect("a model"));
    Supervised::with(model, parameters, data, Some(&loss), Some(&metrics)).expect("a task")
}

/// The bits of all parameters and metrics after two epochs.
fn trained(mut task: Supervised, accumulate: usize, looks: bool) -> (Vec<u32>, String) {
    let plan = TrainingPlan {
        epochs: 2,
        batch_size: 2,
        eval_batch_size: 2,
        accumulate,
        ..TrainingPlan::default()
    };
    let report = train_with(&mut task, &mut AdamW::new(1e-3), &plan, |shared| {
        if looks {
            vec![linked::<Looker>(&json!({}), shared)]
        } else {
            Vec::new()
        }
    });
    let is_completed = matches!(report.outcome, RunOutcome::Completed);
    assert!(is_completed, "{:?}", report.outcome);
    (bits(task.parameters()), format!("{:?}", report.metrics))
}

#[test]
fn a_hook_that_looks_at_outputs_does_not_change_a_bit() {
    let place = Workplace::new(&[]);
    let tied = json!({"kind": "linear", "name": "head", "tied": "wte", "bias": false});
    let own = json!({"kind": "linear", "name": "head"});
    let plain = json!({"kind": "cross-entropy"});
    let smoothed = json!({"kind": "cross-entropy", "label_smoothing": 0.1, "ignore_index": 0});
    // With two batches an update the parameters aren't stepped within the backward pass.
    for (head, loss, accumulate) in [(&tied, &plain, 1), (&own, &smoothed, 1), (&tied, &plain, 2)] {
        let mut whole = task(&place, head, loss);
        let batch = whole.data(Phase::Train).expect("data");
        let batch = batch.gather(&[0, 1], 0).expect("a batch");
        let mut pass = Pass::training().for_loss();
        let inputs = whole.forward(&batch, &mut pass).expect("a pass");
        assert!(pass.left_head().is_some(), "it was not left");
        assert_eq!(inputs.dims(), [2, CONTEXT as usize, 16]);

        let (parameters, metrics) = trained(whole, accumulate, true);
        let in_parts = trained(task(&place, head, loss), accumulate, false);
        assert_eq!(in_parts.1, metrics, "{head} {loss}");
        assert!(in_parts.0 == parameters, "other bits: {head} {loss}");
    }
}

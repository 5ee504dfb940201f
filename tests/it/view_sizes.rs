//! Views of several sizes: the model runs for each of them, and learns from all.

use std::cell::Cell;
use std::path::Path;

use candle_core::{DType as ElementType, Device, Tensor};
use sconce::data::{self, Batch, DataConfig};
use sconce::loss::LossConfig;
use sconce::nn::{ModelConfig, Pass, ops};
use sconce::optim::Sgd;
use sconce::parameters::Parameters;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::{Supervised, Task};
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{Collection, ForwardMode, ForwardPass};
use sconce_tests::in_process::{linked, train_with};
use sconce_tests::{Workplace, tiny};
use serde_json::{Value, json};

/// A small convolutional network that takes images of any size.
pub(crate) fn any_size() -> Value {
    json!({"kind": "sequential", "layers": [
        {"kind": "conv2d", "channels": 4, "kernel": 3, "padding": 1},
        {"kind": "batch-norm"},
        {"kind": "relu"},
        {"kind": "adaptive-avg-pool2d", "size": 1},
        {"kind": "flatten"},
        {"kind": "dropout", "share": 0.1},
        {"kind": "linear", "name": "projector", "outputs": 6},
    ]})
}

/// Two large and three small views.
pub(crate) fn two_sizes() -> Value {
    json!([
        {"count": 2, "size": [16, 16], "crop": {"scale": [0.4, 1.0]}},
        {"count": 3, "size": [8, 8], "crop": {"scale": [0.1, 0.4]}},
    ])
}

fn task(dropout: f64) -> Supervised {
    let config = json!({
        "kind": "synthetic-digits", "train": 12, "val": 0, "test": 0, "targets": "none", "views": two_sizes(),
    });
    let config: DataConfig = serde_json::from_value(config).expect("a config");
    let data = data::load(&config, Path::new(""), 5).expect("data");
    let mut model = any_size();
    model["layers"][5]["share"] = json!(dropout);
    let model: ModelConfig = serde_json::from_value(model).expect("a model");
    let mut parameters = Parameters::new(3, ElementType::F32, &Device::Cpu);
    let (inputs, targets) = (data.train.signal(), data.train.targets());
    let network = model.build(&mut parameters, &inputs, targets);
    let mut network = network.expect("a model");
    network.take_also(&[1, 8, 8]);
    let loss = Some(&LossConfig::Given);
    Supervised::with(Box::new(network), parameters, data, loss, None).expect("a task")
}

/// The gradients of all parameters, of the sum of outputs times other numbers.
fn gradients(task: &mut Supervised, batch: &Batch, factors: &Tensor) -> Vec<Vec<f32>> {
    let outputs = task.forward(batch, &mut Pass::training()).expect("outputs");
    assert_eq!(outputs.dims(), factors.dims());
    let loss = (outputs * factors).and_then(|products| products.sum_all());
    let store = ops::backward(&loss.expect("a loss"), 1.0).expect("gradients");
    let trained = task.parameters().trainable();
    let gradient = |tensor: &Tensor| -> Vec<f32> {
        let gradient = store.get(tensor).expect("it learns");
        gradient
            .flatten_all()
            .and_then(|flat| flat.to_vec1())
            .expect("numbers")
    };
    trained.map(|one| gradient(one.tensor())).collect()
}

#[test]
fn the_gradient_is_the_sum_of_those_of_each_size() {
    let mut task = task(0.0);
    let data = task.data(sconce_plugin_api::Phase::Train).expect("data");
    let batch = data.gather(&[0, 3, 4, 7], 0).expect("a batch");
    let factors = (0..20 * 6).map(|place| (place as f32 * 0.7).sin());
    let factors = Tensor::from_iter(factors, &Device::Cpu).and_then(|flat| flat.reshape((20, 6)));
    let factors = factors.expect("numbers");
    let both = gradients(&mut task, &batch, &factors);
    let mut before = 0;
    let each: Vec<_> = batch
        .all_inputs()
        .map(|inputs| {
            let rows = inputs.dim(0).expect("rows");
            let part = factors.narrow(0, before, rows).expect("rows");
            before += rows;
            let alone = Batch {
                inputs: inputs.clone(),
                further_inputs: Vec::new(),
                ..batch.clone()
            };
            gradients(&mut task, &alone, &part)
        })
        .collect();
    assert_eq!((before, each.len()), (20, 2));
    for (index, both) in both.iter().enumerate() {
        let largest = both
            .iter()
            .fold(0.0, |largest: f32, x| largest.max(x.abs()));
        for (place, found) in both.iter().enumerate() {
            let sum = each[0][index][place] + each[1][index][place];
            assert!(
                (found - sum).abs() <= 1e-5 * largest.max(1.0),
                "{index}: {found} {sum}"
            );
        }
    }
}

thread_local! {
    /// Batches that the hook of this thread's run has compared.
    static COMPARED: Cell<u32> = const { Cell::new(0) };
}

/// Compares passes with the run's, of all views and of each.
struct Looks;

#[hook(name = "looks", about = "Compares passes of views.")]
impl Hook for Looks {
    type Config = NoConfig;

    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Looks)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        let all = ForwardPass::new();
        task.forward_pass(&all.mode(ForwardMode::Training), "trained")?;
        task.forward_pass(&ForwardPass::new(), "all")?;
        for view in 0..5 {
            task.forward_pass(&ForwardPass::new().view(view), &format!("view.{view}"))?;
        }
        let none = task.forward_pass(&ForwardPass::new().view(5), "none");
        let error = none
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.contains("no view 5: its samples have 5"), "{error}");
        let small = task.tensors(Collection::Batch).named("inputs.1")?;
        assert_eq!(small.shape(), [12, 1, 8, 8]);
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let numbers = |name: &str| {
            let published = task.tensors(Collection::Published);
            published.named(name)?.to_vec::<f32>()
        };
        let mut views = Vec::new();
        for view in 0..5 {
            views.extend(numbers(&format!("view.{view}"))?);
        }
        let outputs = task.outputs()?.to_vec::<f32>()?;
        for (one, other) in [(&outputs, &numbers("trained")?), (&views, &numbers("all")?)] {
            assert_eq!((one.len(), other.len()), (20 * 6, 20 * 6));
            for (one, other) in one.iter().zip(other) {
                assert!((one - other).abs() < 1e-5, "{one} {other}");
            }
        }
        COMPARED.set(COMPARED.get() + 1);
        task.set_loss(0.0, &vec![0.1_f32; outputs.len()])
    }
}

#[test]
fn hooks_see_all_views_and_pass_each() {
    let mut task = task(0.1);
    let plan = TrainingPlan {
        epochs: 1,
        batch_size: 4,
        check_finite: true,
        ..TrainingPlan::default()
    };
    let report = train_with(&mut task, &mut Sgd::new(0.1), &plan, |shared| {
        vec![linked::<Looks>(&json!({}), shared)]
    });
    let outcome = report.outcome;
    assert!(matches!(outcome, RunOutcome::Completed), "{outcome:?}");
    assert_eq!(COMPARED.get(), 3);
}

#[test]
fn a_model_that_does_not_fit_all_sizes_is_refused_with_view_and_layer() {
    let mut manifest = tiny();
    manifest["data"] = json!({
        "kind": "synthetic-digits", "train": 12, "val": 0, "test": 0, "targets": "none", "views": two_sizes(),
    });
    manifest["loss"] = json!("given");
    manifest["hooks"] = json!(["dino"]);
    let place = Workplace::new(&["sconce-plugin-self-supervised"]);
    let narrow = json!({"kind": "sequential", "layers": [
        {"kind": "flatten"}, {"kind": "linear", "name": "projector", "outputs": 6},
    ]});
    let deep = json!({"kind": "sequential", "layers": [
        {"kind": "conv2d", "name": "wide", "channels": 2, "kernel": 9}, {"kind": "adaptive-avg-pool2d", "size": 1},
        {"kind": "flatten"},
    ]});
    let images =
        json!({"kind": "sequential", "layers": [{"kind": "conv2d", "channels": 2, "kernel": 3}]});
    let entry = "`views[1]` has the size [8, 8], which the model does not fit";
    for (model, words) in [
        (
            narrow,
            "the parameter `projector.weight` would have the shape [6, 64], not [6, 256]",
        ),
        (deep, "`wide`"),
        (
            images,
            "its output for them has the shape [2, 6, 6], not [2, 14, 14]",
        ),
    ] {
        manifest["model"] = model;
        place.write(&manifest);
        place
            .sconce(&["check", "manifest.json"])
            .expect(2, &["manifest.json:", entry, words, "adaptive-avg-pool2d"]);
    }
    manifest["model"] = any_size();
    place.write(&manifest);
    let shown = place
        .sconce(&["check", "manifest.json"])
        .expect(0, &[])
        .stdout;
    let views = "5 views of each training image: 2 of 16 × 16, 3 of 8 × 8";
    assert!(shown.contains(views), "{shown}");
}

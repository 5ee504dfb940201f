//! Losses that hooks give, and forward passes that they ask for.

use std::cell::RefCell;
use std::path::Path;

use candle_core::{DType as ElementType, Device};
use sconce::data::{self, DataConfig};
use sconce::loss::LossConfig;
use sconce::optim::Sgd;
use sconce::parameters::Parameters;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::{Supervised, Task};
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{Collection, ForwardMode, ForwardPass};
use sconce_tests::in_process::{bits, linked, mlp, mlp_task, train_with};
use sconce_tests::{Workplace, edit, tiny};
use serde_json::json;

thread_local! {
    /// What the hook of this thread's run has seen.
    static SEEN: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

/// What the hook does wrong, if anything.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    gives_none: bool,
    short: bool,
    view: Option<u32>,
    module: String,
}

/// Gives the cross entropy of the digits itself, and compares passes of its own with the run's.
struct OwnLoss(Config);

#[hook(name = "own-loss", about = "Gives the cross entropy.")]
impl Hook for OwnLoss {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        Ok(OwnLoss(config))
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let names: Vec<String> = task.parameters().map(|one| one.name().to_owned()).collect();
        for name in names {
            let parameter = task.parameter(&name)?;
            let shape: Vec<usize> = parameter
                .shape()
                .iter()
                .map(|&size| size as usize)
                .collect();
            let halves: Vec<f32> = parameter.to_vec::<f32>()?.iter().map(|x| x / 2.0).collect();
            task.publish_tensor(&format!("half/{name}"), &shape, &halves, Keep::Run)?;
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        task.forward_pass(&ForwardPass::new(), "same")?;
        let mut half = ForwardPass::of_set("half").module(&self.0.module);
        if let Some(view) = self.0.view {
            half = half.view(view);
        }
        task.forward_pass(&half.mode(ForwardMode::Training), "half")
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let published = |name: &str| {
            task.tensors(Collection::Published)
                .named(name)?
                .to_vec::<f32>()
        };
        let (same, half) = (published("same")?, published("half")?);
        let outputs = task.outputs()?.to_vec::<f32>()?;
        if outputs != same {
            bail!("a pass with the parameters as they are has other outputs");
        }
        if half.len() == outputs.len() && half == outputs {
            bail!("a pass with other parameters has the same outputs");
        }
        if self.0.gives_none {
            return Ok(());
        }
        let targets = task.targets()?.to_vec::<u32>()?;
        let (value, mut gradient) = cross_entropy(&outputs, &targets);
        SEEN.with_borrow_mut(|seen| seen.push(value));
        gradient.truncate(gradient.len() - usize::from(self.0.short));
        task.set_loss(value, &gradient)
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let given = SEEN.with_borrow(|seen| seen.last().copied());
        if let (Some(given), Some(loss)) = (given, task.loss()) {
            assert!((given - loss).abs() < 1e-6, "{given} {loss}");
        }
        Ok(())
    }
}

fn cross_entropy(outputs: &[f32], targets: &[u32]) -> (f64, Vec<f64>) {
    let (width, count) = (outputs.len() / targets.len(), targets.len() as f64);
    let mut gradient = Vec::new();
    let mut value = 0.0;
    for (row, &target) in outputs.chunks_exact(width).zip(targets) {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        value += (sum.ln() - f64::from(row[target as usize])) / count;
        gradient.extend(row.iter().enumerate().map(|(class, &x)| {
            let is_target = f64::from(u8::from(class == target as usize));
            (f64::from(x).exp() / sum - is_target) / count
        }));
    }
    (value, gradient)
}

fn plan() -> TrainingPlan {
    TrainingPlan {
        epochs: 2,
        batch_size: 8,
        eval_batch_size: 8,
        accumulate: 2,
        ..TrainingPlan::default()
    }
}

#[test]
fn a_given_loss_trains_as_the_same_loss_of_the_host() {
    let train = |gives_none: bool| {
        let mut task = mlp_task(&[6], 40, 8);
        let config = json!({"gives_none": gives_none, "module": ""});
        let report = train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
            vec![linked::<OwnLoss>(&config, shared)]
        });
        assert!(
            matches!(report.outcome, RunOutcome::Completed),
            "{:?}",
            report.outcome
        );
        bits(task.parameters())
    };
    let pairs = train(true).into_iter().zip(train(false));
    for (own, given) in pairs.map(|(own, given)| (f32::from_bits(own), f32::from_bits(given))) {
        assert!(
            (own - given).abs() < 1e-5 * own.abs().max(0.1),
            "{own} {given}"
        );
    }
}

#[test]
fn what_can_not_be_run_or_given_is_an_error_of_the_hook() {
    for (config, words) in [
        (json!({"view": 1}), "the batch has no view 1"),
        (json!({"module": "tea"}), "the model has no module `tea`"),
        (json!({"short": true}), "each output has an element of it"),
    ] {
        let mut task = mlp_task(&[6], 16, 0);
        let report = train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
            vec![linked::<OwnLoss>(&config, shared)]
        });
        let RunOutcome::Failed(error) = report.outcome else {
            panic!("{config}: it is accepted");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_batch_whose_loss_no_hook_gives_ends_the_run() {
    let train = |gives_none: bool| {
        let config = json!({"kind": "synthetic-digits", "train": 16, "val": 8, "test": 0});
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        let data = data::load(&config, Path::new(""), 5).expect("data");
        let mut parameters = Parameters::new(3, ElementType::F32, &Device::Cpu);
        let network = Box::new(mlp(&mut parameters, &[1, 28, 28], &[6], 10));
        let task = Supervised::with(network, parameters, data, Some(&LossConfig::Given), None);
        let mut task = task.expect("a task");
        assert!(task.metrics().is_empty());
        let config = json!({"gives_none": gives_none});
        train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
            vec![linked::<OwnLoss>(&config, shared)]
        })
    };
    let given = train(false).outcome;
    assert!(matches!(given, RunOutcome::Completed), "{given:?}");
    let RunOutcome::Failed(error) = train(true).outcome else {
        panic!("it is accepted");
    };
    let words = "no hook has given the loss of this batch at `after_forward`";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_manifest_whose_loss_is_given_needs_a_hook_that_gives_it() {
    let given = edit(tiny(), "/loss", json!("given"));
    let place = Workplace::new(&["sconce-fixture-noop", "sconce-plugin-optimisation"]);
    place.write(&edit(given, "/hooks", json!(["ema"])));
    place.sconce(&["check", "manifest.json"]).expect(
        2,
        &[
            "the loss is given by a hook, and no hook of the manifest gives one",
            "manifest.json:",
        ],
    );
}

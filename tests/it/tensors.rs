//! Hooks read and change tensors where they may, without a copy.

use candle_core::{DType, Device, Tensor};
use sconce::data::order;
use sconce::gradients::Gradients;
use sconce::loss::cross_entropy;
use sconce::manifest::ValidateEvery;
use sconce::nn::{Model, Pass};
use sconce::optim::{Optimizer, Sgd};
use sconce::parameters::Parameters;
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::{Supervised, Task};
use sconce_plugin_api::Phase;
use sconce_tests::in_process::{bits, loaded, mlp, mlp_task, train_with};
use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGIN: &str = "sconce-fixture-tensors";

fn touch(at: &str, what: &str) -> (Workplace, Finished) {
    let place = Workplace::new(&[PLUGIN, "sconce-fixture-recorder"]);
    let hook = json!({"hook": "touch", "priority": "HIGH", "config": {"at": at, "what": what}});
    let finished = place.run(&edit(tiny(), "/hooks", json!([hook, "recorder"])));
    (place, finished)
}

#[test]
fn tensors_are_changed_where_the_table_says_so_and_nowhere_else() {
    for (what, legal, name) in [
        (
            "parameter",
            &["before_run", "after_update", "after_epoch"][..],
            "the parameters",
        ),
        (
            "gradient",
            &["after_backward", "before_update"],
            "the gradients",
        ),
        ("inputs", &["before_iter"], "the inputs"),
        ("outputs", &["after_forward"], "the outputs"),
    ] {
        for at in [
            "before_run",
            "before_iter",
            "after_forward",
            "after_loss",
            "after_backward",
            "before_update",
            "after_update",
            "after_epoch",
        ] {
            let (_place, finished) = touch(at, what);
            if legal.contains(&at) {
                finished.expect(0, &[]);
            } else {
                let words = format!(
                    "{name} can't be changed at `{at}`; they can at {}",
                    legal[0]
                );
                finished.expect(4, &[&words, "hook `touch` failed", "lib.rs:"]);
            }
        }
    }
}

#[test]
fn wrong_names_and_types_are_reported() {
    touch("after_loss", "unknown").1.expect(
        4,
        &["no parameter is called `fc1.wieght`; did you mean `fc1.weight`?"],
    );
    touch("after_loss", "wrong-type")
        .1
        .expect(4, &["the elements of `fc1.weight` are f32, not f64"]);
    touch("before_run", "targets")
        .1
        .expect(4, &["there is no `targets` at this moment"]);
    touch("after_loss", "targets").1.expect(0, &[]);
    touch("after_loss", "variable").1.expect(
        4,
        &["no tensor of the batch is called `outptus`; did you mean `outputs`?"],
    );
    touch("after_loss", "published")
        .1
        .expect(4, &["no hook has published a tensor `nummbers`"]);
    touch("after_loss", "optimizer").1.expect(
        4,
        &["no tensor of the optimizer is called `fc1.weight.momentum`"],
    );
    touch("after_loss", "checkpoint").1.expect(
        4,
        &["nothing can be added to a checkpoint at `after_loss`; it can at before_save_checkpoint"],
    );
}

#[test]
fn what_a_hook_changes_is_what_the_loop_goes_on_with() {
    // Outputs of zero: every class is equally likely, whatever the model.
    let (place, _) = touch("after_forward", "outputs");
    let mut records = place.records("record.jsonl");
    records.retain(|call| call["point"] == "after_loss");
    assert!(!records.is_empty());
    for call in records {
        let loss = call["loss"].as_f64().expect("a loss");
        assert!((loss - 10.0_f64.ln()).abs() < 1e-6, "{loss}");
    }
    // Gradients of zero for the first layer alone: it stays, the rest learns.
    let (place, _) = touch("before_update", "gradient");
    let validations: Vec<Value> = place
        .records("record.jsonl")
        .into_iter()
        .filter(|call| call["point"] == "after_epoch" && call["phase"] == "val")
        .collect();
    assert_ne!(validations[0]["metrics"], validations[1]["metrics"]);
}

fn task() -> Supervised {
    mlp_task(&[16], 40, 0)
}

const MAX_NORM: f64 = 0.5;
const RATE: f32 = 0.01;

/// Trains with the plugin's `clip` and `decay`.
fn with_hooks(plan: &TrainingPlan) -> Vec<u32> {
    let mut task = task();
    let report = train_with(&mut task, &mut Sgd::new(0.1), plan, |shared| {
        vec![
            loaded(PLUGIN, "clip", &json!({"max_norm": MAX_NORM}), shared),
            loaded(PLUGIN, "decay", &json!({"rate": RATE}), shared),
        ]
    });
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    let norm = report.metric(Phase::Train, "grad_norm").expect("published");
    assert!(norm > MAX_NORM, "something was clipped: {norm}");
    bits(task.parameters())
}

/// The same arithmetic without any hook.
fn by_hand(plan: &TrainingPlan) -> Vec<u32> {
    let task = task();
    let data = task.data(Phase::Train).expect("data");
    let mut parameters = Parameters::new(3, DType::F32, &Device::Cpu);
    let mlp = mlp(&mut parameters, &[1, 28, 28], &[16], 10);
    let mut optimizer = Sgd::new(0.1);
    let numbers = |tensor: &Tensor| -> Vec<f32> {
        tensor
            .flatten_all()
            .and_then(|t| t.to_vec1())
            .expect("numbers")
    };
    for epoch in 0..plan.epochs {
        for indices in order::training(plan.seed, epoch, data.len()).chunks(plan.batch_size) {
            let batch = data.gather(indices, 0).expect("a batch");
            let outputs = mlp
                .forward(&batch.inputs, &mut Pass::training())
                .expect("outputs");
            let loss = cross_entropy(&outputs, &batch.targets).expect("a loss");
            let mut gradients =
                Gradients::from_store(&parameters, &loss.backward().expect("backward"));
            let all: Vec<Vec<f32>> = (0..parameters.len())
                .map(|i| numbers(gradients.at(i).expect("one")))
                .collect();
            let norm = all
                .iter()
                .flatten()
                .map(|&g| f64::from(g) * f64::from(g))
                .sum::<f64>()
                .sqrt();
            if norm > MAX_NORM {
                let factor = (MAX_NORM / norm) as f32;
                for (index, values) in all.iter().enumerate() {
                    let scaled: Vec<f32> = values.iter().map(|g| g * factor).collect();
                    let shape = gradients.at(index).expect("one").dims().to_vec();
                    gradients.set(
                        index,
                        Tensor::from_vec(scaled, shape, &Device::Cpu).expect("a tensor"),
                    );
                }
            }
            optimizer.step(&parameters, &gradients).expect("a step");
            for parameter in parameters.iter() {
                let shrunk: Vec<f32> = numbers(parameter.tensor())
                    .iter()
                    .map(|p| p * (1.0 - RATE))
                    .collect();
                let shape = parameter.tensor().dims().to_vec();
                let shrunk = Tensor::from_vec(shrunk, shape, &Device::Cpu).expect("a tensor");
                parameter.var().set(&shrunk).expect("set");
            }
        }
    }
    bits(&parameters)
}

#[test]
fn clipping_and_decay_in_a_plugin_are_bit_for_bit_the_same_arithmetic_in_the_host() {
    let plan = TrainingPlan {
        seed: 9,
        epochs: 3,
        batch_size: 16,
        validate_every: ValidateEvery::Epochs(0),
        test: false,
        ..TrainingPlan::default()
    };
    assert_eq!(with_hooks(&plan), by_hand(&plan));
}

//! Parameters swapped for a published set and back.

use sconce::data::order;
use sconce::gradients::Gradients;
use sconce::loss::cross_entropy;
use sconce::nn::Pass;
use sconce::optim::{Optimizer, Sgd};
use sconce::run::{RunOutcome, TrainingPlan};
use sconce::task::Task;
use sconce_plugin_api::Phase;
use sconce_tests::in_process::{bits, loaded, mlp_task, train_with};
use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGIN: &str = "sconce-fixture-tensors";
const DECAY: f32 = 0.75;

fn plan() -> TrainingPlan {
    TrainingPlan {
        seed: 9,
        epochs: 2,
        batch_size: 16,
        ..TrainingPlan::default()
    }
}

/// The validation loss of the averages after each epoch, and the parameters' bits, by hand.
fn by_hand() -> (Vec<f64>, Vec<u32>) {
    let mut task = mlp_task(&[16], 40, 20);
    let mut optimizer = Sgd::new(0.1);
    let train = task.data(Phase::Train).expect("data");
    let val = task.data(Phase::Val).expect("data");
    let all: Vec<u32> = (0..20).collect();
    let numbers = |task: &dyn Task| -> Vec<Vec<f32>> {
        let parameters = task.parameters().iter();
        parameters
            .map(|p| {
                p.tensor()
                    .flatten_all()
                    .and_then(|t| t.to_vec1())
                    .expect("numbers")
            })
            .collect()
    };
    let set = |task: &dyn Task, numbers: &[Vec<f32>]| {
        for (parameter, numbers) in task.parameters().iter().zip(numbers) {
            let shape = parameter.tensor().dims().to_vec();
            let device = candle_core::Device::Cpu;
            let tensor = candle_core::Tensor::from_vec(numbers.clone(), shape, &device);
            parameter
                .var()
                .set(&tensor.expect("a tensor"))
                .expect("set");
        }
    };
    let mut averages = numbers(&task);
    let mut losses = Vec::new();
    for epoch in 0..plan().epochs {
        for indices in order::training(plan().seed, epoch, train.len()).chunks(plan().batch_size) {
            let batch = train.gather(indices, 0).expect("a batch");
            let mut pass = Pass::training();
            let outputs = task.forward(&batch, &mut pass).expect("outputs");
            let loss = cross_entropy(&outputs, &batch.targets).expect("a loss");
            let store = loss.backward().expect("backward");
            let gradients = Gradients::from_store(task.parameters(), &store);
            optimizer
                .step(task.parameters(), &gradients)
                .expect("a step");
            for (average, now) in averages.iter_mut().zip(numbers(&task)) {
                for (average, now) in average.iter_mut().zip(now) {
                    *average = DECAY * *average + (1.0 - DECAY) * now;
                }
            }
        }
        let real = numbers(&task);
        set(&task, &averages);
        let batch = val.gather(&all, 0).expect("a batch");
        let outputs = task
            .forward(&batch, &mut Pass::evaluation())
            .expect("outputs");
        let loss = cross_entropy(&outputs, &batch.targets).expect("a loss");
        losses.push(f64::from(loss.to_scalar::<f32>().expect("a number")));
        set(&task, &real);
    }
    (losses, bits(task.parameters()))
}

#[test]
fn a_validation_sees_the_averages_and_the_training_goes_on_with_the_parameters() {
    let (losses, expected) = by_hand();
    let mut task = mlp_task(&[16], 40, 20);
    let report = train_with(&mut task, &mut Sgd::new(0.1), &plan(), |shared| {
        vec![loaded(PLUGIN, "average", &json!({"decay": DECAY}), shared)]
    });
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    assert_eq!(bits(task.parameters()), expected);
    let reported = report.metric(Phase::Val, "loss").expect("a loss");
    assert_eq!(
        reported.to_bits(),
        losses[1].to_bits(),
        "{reported} {losses:?}"
    );
}

fn with_average(asker: Value) -> (Workplace, sconce_tests::Finished) {
    let place = Workplace::new(&[PLUGIN, "sconce-fixture-faults"]);
    let hooks = json!([{"hook": "average", "config": {"decay": DECAY}}, asker]);
    let finished = place.run(&edit(tiny(), "/hooks", hooks));
    (place, finished)
}

#[test]
fn a_checkpoint_saved_while_swapped_stores_the_real_parameters() {
    let save = |at: &str, phase: &str, tag: &str| json!({"hook": "asker", "config": {"at": at, "phase": phase, "what": "save_checkpoint", "text": tag}});
    let (swapped, finished) = with_average(save("after_epoch", "val", "x"));
    finished.expect(0, &[]);
    let (real, finished) = with_average(save("after_cycle", "train", "x"));
    finished.expect(0, &[]);
    let (swapped, real) = (swapped.checkpoint("x"), real.checkpoint("x"));
    assert_ne!(
        real["parameters/fc1.weight"],
        real["published/ema/fc1.weight"]
    );
    for (name, tensor) in &real {
        assert!(swapped.get(name) == Some(tensor), "{name}");
    }
}

#[test]
fn wrong_swaps_are_the_askers_fault() {
    let ask = |at: &str, phase: &str, what: &str, text: &str| json!({"hook": "asker", "priority": "LOWEST", "config": {"at": at, "phase": phase, "what": what, "text": text}});
    with_average(ask("after_cycle", "train", "swap_parameters", "eam"))
        .1
        .expect(
            4,
            &[
                "no tensor of that set is published; publish them as `eam/fc1.weight`",
                "`asker` failed at `after_cycle`",
            ],
        );
    with_average(ask("before_epoch", "val", "swap_parameters", "ema"))
        .1
        .expect(4, &["they are swapped for `ema` already, by `average`"]);
    with_average(ask("after_cycle", "train", "swap_back", ""))
        .1
        .expect(
            4,
            &["can't swap the parameters back: they are in their place"],
        );
    with_average(ask("after_cycle", "train", "swap_parameters", "ema"))
        .1
        .expect(
            4,
            &[
                "the parameters are still swapped for `ema` when the training continues",
                "hook `asker` failed",
            ],
        );
}

//! Losses and metrics that stay on a device until somebody reads them. The CPU plays the device.

use std::cell::RefCell;

use sconce::bridge::BridgeState;
use sconce::dispatch::{Dispatcher, LoadedHook};
use sconce::log::MemoryLog;
use sconce::nn::ops::device::fetches;
use sconce::optim::Sgd;
use sconce::run::{RunOutcome, RunReport, Trainer, TrainingPlan};
use sconce_plugin_api::prelude::*;
use sconce_tests::Workplace;
use sconce_tests::in_process::{linked, loaded_from, mlp_task};
use serde_json::json;

/// Batches of an epoch of training.
const BATCHES: u64 = 12;

/// Trains two epochs of 12 batches, with 3 batches of validation after each. Returns the report and the number of fetches.
fn train(
    is_late: bool,
    check_finite: bool,
    hooks: impl FnOnce(&BridgeState<'_>) -> Vec<LoadedHook>,
) -> (RunReport, u64) {
    let mut task = mlp_task(&[8], 96, 24);
    let plan = TrainingPlan {
        epochs: 2,
        batch_size: 8,
        eval_batch_size: 8,
        check_finite,
        ..TrainingPlan::default()
    };
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let hooks = Dispatcher::new(hooks(&shared));
    let mut optimizer = Sgd::new(0.05);
    let trainer = Trainer::new(&mut task, &mut optimizer, hooks, &shared, plan);
    let trainer = if is_late {
        trainer.measuring_deferred()
    } else {
        trainer
    };
    let before = fetches();
    let report = trainer.run();
    assert!(
        matches!(report.outcome, RunOutcome::Completed),
        "{report:?}"
    );
    (report, fetches() - before)
}

thread_local! {
    /// What the hooks of a run have seen.
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn note(text: String) {
    SEEN.with_borrow_mut(|seen| seen.push(text));
}

/// Reads the loss and all metrics every `every` batches, and the losses since.
struct Reader {
    every: u64,
    losses: Vec<f64>,
    awaited: usize,
}

#[derive(Deserialize, JsonSchema)]
struct ReaderConfig {
    every: u64,
}

#[hook(name = "reader", about = "Reads losses and metrics.")]
impl Hook for Reader {
    type Config = ReaderConfig;

    fn new(config: ReaderConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Reader {
            every: config.every,
            losses: Vec::new(),
            awaited: 0,
        })
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        assert!(task.losses().is_known());
        if task.phase() == Phase::Train {
            if task.losses().is_awaited() {
                self.awaited += 1;
            } else {
                self.losses.extend(task.loss());
            }
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.batch().is_multiple_of(self.every) {
            let awaited = std::mem::take(&mut self.awaited);
            self.losses.extend(task.losses().recent(awaited));
            let losses: Vec<u64> = self.losses.drain(..).map(f64::to_bits).collect();
            let metrics: Vec<(String, u64)> = (task.metrics_of(task.phase()))
                .map(|(name, value)| (name.to_owned(), value.to_bits()))
                .collect();
            let (phase, iteration) = (task.phase(), task.iteration());
            let loss = task.loss().map(f64::to_bits);
            note(format!(
                "{phase} {iteration} {loss:?} {losses:?} {metrics:?}"
            ));
        }
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        note(format!(
            "{:?} {:?} {:?}",
            task.loss().map(f64::to_bits),
            task.metric("accuracy").map(f64::to_bits),
            task.metric_of(Phase::Val, "accuracy").map(f64::to_bits)
        ));
        Ok(())
    }
}

fn reading(every: u64, is_late: bool) -> (Vec<String>, RunReport, u64) {
    SEEN.take();
    let hook = |shared: &BridgeState<'_>| vec![linked::<Reader>(&json!({"every": every}), shared)];
    let (report, fetches) = train(is_late, false, hook);
    (SEEN.take(), report, fetches)
}

#[test]
fn nothing_is_fetched_for_nobody() {
    let (late, fetches) = train(true, false, |_| Vec::new());
    let (at_once, none) = train(false, false, |_| Vec::new());
    assert_eq!(late.metrics, at_once.metrics);
    // Once at the end of each pass: two of training, two of validation.
    assert!(fetches <= 4, "{fetches} fetches");
    assert_eq!(none, 0);
}

#[test]
fn hooks_read_the_same_values_whenever_they_read() {
    for every in [1, 4, BATCHES] {
        let (late, of_late, fetches) = reading(every, true);
        let (at_once, of_at_once, _) = reading(every, false);
        assert_eq!(late, at_once, "every {every} batches");
        assert_eq!(of_late.metrics, of_at_once.metrics);
        // Two epochs of training and of validation, each with its end.
        assert!(
            fetches <= 2 * (BATCHES / every + 3) + 4,
            "{fetches} fetches"
        );
    }
}

#[test]
fn for_a_hook_that_does_not_know_of_it_the_loss_is_read_first() {
    let workplace = Workplace::new(&[]);
    let Some(library) = workplace.add_c_plugin("tests/c/noop.c", &[]) else {
        return;
    };
    let in_c = |shared: &BridgeState<'_>| vec![loaded_from(&library, "noop-c", &json!({}), shared)];
    let (_, fetches) = train(true, false, in_c);
    // Of each batch before `after_loss`, and at the end of each pass.
    let batches = 2 * (BATCHES + 3);
    assert!(
        (batches..=batches + 4).contains(&fetches),
        "{fetches} fetches"
    );
}

#[test]
fn gradients_are_checked_by_one_fetch_each_batch() {
    let (late, fetches) = train(true, true, |_| Vec::new());
    let (at_once, _) = train(false, true, |_| Vec::new());
    assert_eq!(late.metrics, at_once.metrics);
    assert!(fetches <= 2 * BATCHES + 4, "{fetches} fetches");
}

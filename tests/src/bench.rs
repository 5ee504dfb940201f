//! Fixtures for benchmarks: no-op hooks, and a task to train.

use std::path::Path;

use candle_core::{DType, Device};
use sconce::bridge::BridgeState;
use sconce::data::{self, DataConfig, SyntheticDigitsConfig};
use sconce::dispatch::Dispatcher;
use sconce::log::MemoryLog;
use sconce::optim::AdamW;
use sconce::parameters::Parameters;
use sconce::run::{RunReport, Trainer, TrainingPlan};
use sconce::task::Supervised;
use sconce_dispatch::noop_hooks_of;

use crate::artifacts;
use crate::in_process::mlp;

/// Creates a dispatcher over `count` no-op hooks of the fixture plugin, which cargo builds first.
///
/// # Panics
///
/// If the plugin can't be built or loaded.
pub fn noop_hooks(count: usize, shared: &BridgeState<'_>) -> Dispatcher {
    noop_hooks_of(&artifacts().plugin("sconce-fixture-noop"), count, shared)
}

/// The MLP 784-256-10 on 100 batches of 64 synthetic digits.
///
/// # Panics
///
/// If it can't be created.
pub fn digits_task() -> Supervised {
    let config = DataConfig::SyntheticDigits(SyntheticDigitsConfig {
        train: 6400,
        val: 0,
        test: 0,
        ..SyntheticDigitsConfig::default()
    });
    let data = data::load(&config, Path::new(""), 1).expect("data");
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    let mlp = mlp(&mut parameters, &[1, 28, 28], &[256], 10);
    Supervised::new(Box::new(mlp), parameters, data).expect("a task")
}

/// Trains a task with `hooks` no-op hooks.
pub fn train(task: &mut Supervised, plan: &TrainingPlan, hooks: usize) -> RunReport {
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let hooks = noop_hooks(hooks, &shared);
    let mut optimizer = AdamW::new(1e-3);
    Trainer::new(task, &mut optimizer, hooks, &shared, plan.clone()).run()
}

//! Runs within this process: a task, linked or loaded hooks, and the results.

use std::path::Path;

use candle_core::{DType, Device};
use sconce::bridge::BridgeState;
use sconce::data::{self, DataConfig, Targets};
use sconce::dispatch::{Dispatcher, HookSpec, LoadedHook};
use sconce::log::MemoryLog;
use sconce::nn::models::MlpConfig;
use sconce::nn::{ModelConfig, Network, Signal};
use sconce::optim::Optimizer;
use sconce::parameters::Parameters;
use sconce::plugin::inspect;
use sconce::plugin::instance::HookInstance;
use sconce::plugin::library::Library;
use sconce::run::{RunReport, Trainer, TrainingPlan};
use sconce::task::{Supervised, Task};
pub use sconce_dispatch::create;
use sconce_dispatch::setup;
use sconce_plugin_api::metadata::HookMetadata;
use sconce_plugin_api::{HookKind, Point, Priority};
use serde_json::{Value, json};

use crate::artifacts;

/// Loads a hook from a fixture plugin, named after its kind.
///
/// # Panics
///
/// If the plugin can't be opened or the hook can't be created.
pub fn loaded(package: &str, kind: &str, config: &Value, shared: &BridgeState<'_>) -> LoadedHook {
    let library = Library::open(&artifacts().plugin(package)).expect("it can be opened");
    shared.register(kind);
    let instance = create(&library, kind, &config.to_string(), shared).expect("it is created");
    LoadedHook::new(spec_in(package, kind), instance)
}

/// Loads a hook from a plugin's file, named after its kind.
///
/// # Panics
///
/// If the plugin can't be opened or the hook can't be created.
pub fn loaded_from(
    library: &Path,
    kind: &str,
    config: &Value,
    shared: &BridgeState<'_>,
) -> LoadedHook {
    let plugin = inspect(library).expect("the plugin is right");
    let metadata = plugin.hook(kind).expect("it has the hook");
    let opened = Library::open(library).expect("it can be opened");
    shared.register(kind);
    let instance = create(&opened, kind, &config.to_string(), shared).expect("it is created");
    LoadedHook::new(spec(metadata), instance)
}

/// The host's description of a plugin's hook.
///
/// # Panics
///
/// If the plugin can't be read or does not have the hook.
pub fn spec_in(package: &str, kind: &str) -> HookSpec {
    let path = artifacts().plugin(package);
    let plugin = inspect(&path).expect("the plugin is right");
    let metadata = plugin.hook(kind).expect("it has the hook");
    HookSpec {
        library: path,
        plugin: package.to_owned(),
        ..spec(metadata)
    }
}

/// A hook linked into this program: it goes through the same interface as a plugin's.
///
/// # Panics
///
/// If it is not created.
pub fn linked<H: HookKind>(config: &Value, shared: &BridgeState<'_>) -> LoadedHook {
    let metadata: HookMetadata = serde_json::from_str(H::METADATA).expect("metadata is JSON");
    shared.register(H::NAME);
    let instance = HookInstance::linked::<H>(&config.to_string(), &setup(H::NAME, shared));
    LoadedHook::new(spec(&metadata), instance.expect("it is created"))
}

fn spec(metadata: &HookMetadata) -> HookSpec {
    let points = metadata.points.iter();
    HookSpec {
        name: metadata.name.clone(),
        kind: metadata.name.clone(),
        priority: Priority::new(metadata.priority).unwrap_or_default(),
        points: points
            .filter_map(|point| Point::from_number(point.number))
            .collect(),
        ..HookSpec::default()
    }
}

/// An MLP over samples of a given shape.
///
/// # Panics
///
/// If it can't be created.
pub fn mlp(
    parameters: &mut Parameters,
    shape: &[usize],
    hidden: &[usize],
    outputs: usize,
) -> Network {
    let config = ModelConfig::Mlp(MlpConfig {
        hidden: hidden.to_vec(),
        ..MlpConfig::default()
    });
    let names = (0..outputs).map(|class| class.to_string()).collect();
    let signal = Signal::numbers(shape);
    config
        .build(parameters, &signal, &Targets::Class(names))
        .expect("a model")
}

/// An MLP with these hidden layers over `train` and `val` synthetic digits.
///
/// # Panics
///
/// If it can't be created.
pub fn mlp_task(hidden: &[usize], train: usize, val: usize) -> Supervised {
    let config: DataConfig = serde_json::from_value(
        json!({"kind": "synthetic-digits", "train": train, "val": val, "test": 0}),
    )
    .expect("a config");
    let data = data::load(&config, Path::new(""), 5).expect("data");
    let mut parameters = Parameters::new(3, DType::F32, &Device::Cpu);
    let mlp = mlp(&mut parameters, &[1, 28, 28], hidden, 10);
    Supervised::new(Box::new(mlp), parameters, data).expect("a task")
}

/// Trains a task with hooks.
pub fn train_with(
    task: &mut dyn Task,
    optimizer: &mut dyn Optimizer,
    plan: &TrainingPlan,
    hooks: impl FnOnce(&BridgeState<'_>) -> Vec<LoadedHook>,
) -> RunReport {
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let hooks = Dispatcher::new(hooks(&shared));
    Trainer::new(task, optimizer, hooks, &shared, plan.clone()).run()
}

/// The bits of all parameters.
///
/// # Panics
///
/// If they are not `f32`.
pub fn bits(parameters: &Parameters) -> Vec<u32> {
    let numbers = |parameter: &sconce::parameters::Parameter| -> Vec<f32> {
        let flat = parameter.tensor().flatten_all();
        flat.and_then(|tensor| tensor.to_vec1()).expect("numbers")
    };
    let all = parameters.iter().flat_map(numbers);
    all.map(f32::to_bits).collect()
}

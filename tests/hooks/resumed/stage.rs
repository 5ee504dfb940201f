//! Runs in this process with any of the standard hooks, undisturbed, saved, interrupted and resumed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use sconce::bridge::{self, BridgeState};
use sconce::checkpoint;
use sconce::data::{self, DataConfig};
use sconce::dispatch::{Dispatcher, HookSpec, LoadedHook};
use sconce::log::MemoryLog;
use sconce::nn::{ModelConfig, Signal};
use sconce::optim::OptimizerConfig;
use sconce::parameters::Parameters;
use sconce::plugin::inspect;
use sconce::plugin::instance::HookInstance;
use sconce::plugin::library::Library;
use sconce::run::{Interrupt, Resume, RunOutcome, Trainer, TrainingPlan};
use sconce::task::{Supervised, Task};
use sconce_plugin_api::abi::{SetupAbi, TextAbi};
use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata};
use sconce_plugin_api::{HookKind, Point, Priority};
use sconce_tests::artifacts;
use serde_json::{Value, json};

use super::observer::{NOTES, Notes, Observer, is_measured};

/// Epochs of seven batches, the last of which is smaller.
const EPOCHS: u64 = 2;

/// The standard hooks' plugins, opened once.
pub(super) struct Plugins(Vec<(PluginMetadata, Library)>);

impl Plugins {
    pub(super) fn open(packages: &[&str]) -> Plugins {
        let open = |package: &&str| {
            let path = artifacts().plugin(package);
            let metadata = inspect(&path).expect("the plugin is right").metadata;
            (metadata, Library::open(&path).expect("it can be opened"))
        };
        Plugins(packages.iter().map(open).collect())
    }

    /// The names of all hook kinds.
    pub(super) fn kinds(&self) -> Vec<&str> {
        let hooks = self.0.iter().flat_map(|(metadata, _)| &metadata.hooks);
        hooks.map(|hook| hook.name.as_str()).collect()
    }

    fn hook(&self, kind: &str) -> (&HookMetadata, &Library) {
        let mut all = self.0.iter();
        let found = all.find_map(|(metadata, library)| {
            let mut hooks = metadata.hooks.iter();
            Some((hooks.find(|hook| hook.name == kind)?, library))
        });
        found.unwrap_or_else(|| panic!("no plugin has the hook `{kind}`"))
    }
}

/// How a run begins, and where it is disturbed.
#[derive(Clone, Copy, Default)]
pub(super) struct Course<'a> {
    /// Whether checkpoints are saved at every iteration and around each pass.
    pub(super) saves: bool,
    /// The line of the notes in whose call the run is interrupted.
    pub(super) interrupt_at: Option<usize>,
    /// The checkpoint that it resumes from.
    pub(super) resume: Option<&'a str>,
}

/// A directory in memory where the system has such: thousands of checkpoints are saved, and on a disk each waits
/// for it several times.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}

/// A directory in which a run with some hooks happens again and again.
pub(super) struct Stage<'a> {
    plugins: &'a Plugins,
    /// Names in the manifest, kinds, configurations.
    hooks: Vec<(String, String, Value)>,
    manifest: Value,
    directory: tempfile::TempDir,
}

impl Stage<'_> {
    pub(super) fn new<'a>(plugins: &'a Plugins, hooks: &[(&str, Value)]) -> Stage<'a> {
        let named = hooks.iter().enumerate().map(|(index, (kind, config))| {
            (
                format!("{kind}-{index}"),
                (*kind).to_owned(),
                config.clone(),
            )
        });
        Stage {
            plugins,
            hooks: named.collect(),
            manifest: json!({
                "name": "seen", "seed": 5,
                "optimizer": {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9},
                "train": {"epochs": EPOCHS, "batch_size": 4, "accumulate": 3},
                "model": {"kind": "sequential", "layers": [
                    {"kind": "linear", "outputs": 6}, {"kind": "batch-norm"}, {"kind": "relu"},
                    {"kind": "dropout", "share": 0.2}, {"kind": "linear"}]},
                // The last batch is smaller.
                "data": {"kind": "two-moons", "train": 26, "val": 10, "test": 6},
            }),
            directory: in_memory(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn task(&self) -> Supervised {
        let data: DataConfig = serde_json::from_value(self.manifest["data"].clone()).expect("data");
        let data = data::load(&data, Path::new(""), 5).expect("data");
        let model: ModelConfig =
            serde_json::from_value(self.manifest["model"].clone()).expect("a model");
        let mut parameters = Parameters::new(5, DType::F32, &Device::Cpu);
        let signal = Signal::numbers(data.train.sample_shape());
        let network = model.build(&mut parameters, &signal, data.train.targets());
        let network = network.expect("a model");
        Supervised::new(Box::new(network), parameters, data).expect("a task")
    }

    fn create(&self, shared: &BridgeState<'_>) -> Vec<LoadedHook> {
        let directory = self.directory.path().to_string_lossy().into_owned();
        let manifest = self.manifest.to_string();
        let hook = |metadata: &HookMetadata,
                    name: &str,
                    priority: Option<Priority>,
                    create: &dyn Fn(&SetupAbi) -> HookInstance| {
            shared.register(name);
            let setup = SetupAbi {
                host: std::ptr::from_ref(bridge::root()),
                context: shared.context(),
                name: TextAbi::new(name),
                run_directory: TextAbi::new(&directory),
                manifest: TextAbi::new(&manifest),
                seed: 5,
            };
            let instance = create(&setup);
            let left_out = shared.requests.take_left_out();
            let points = metadata
                .points
                .iter()
                .filter_map(|p| Point::from_number(p.number));
            let default = Priority::new(metadata.priority).unwrap_or_default();
            let spec = HookSpec {
                name: name.to_owned(),
                kind: metadata.name.clone(),
                priority: priority.unwrap_or(default),
                points: points.filter(|point| !left_out.contains(point)).collect(),
                ..HookSpec::default()
            };
            LoadedHook::new(spec, instance)
        };
        let observer: HookMetadata =
            serde_json::from_str(Observer::METADATA).expect("metadata is JSON");
        let observer = |name: &str, priority: Priority, asks: bool| {
            let config = json!({"asks": asks}).to_string();
            hook(&observer, name, Some(priority), &|setup| {
                HookInstance::linked::<Observer>(&config, setup).expect("it is created")
            })
        };
        let mut hooks = vec![observer("first", Priority::HIGHEST, false)];
        for (name, kind, config) in &self.hooks {
            let (metadata, library) = self.plugins.hook(kind);
            let config = config.to_string();
            hooks.push(hook(metadata, name, None, &|setup| {
                let created = HookInstance::create(library, kind, &config, setup);
                created.unwrap_or_else(|error| panic!("{kind} {config}: {}", error.message))
            }));
        }
        let last = Priority::new(100).expect("a priority");
        hooks.push(observer("last", last, true));
        hooks
    }

    /// A run to its end, however that comes; what the observers have written down.
    pub(super) fn run(&self, course: Course<'_>) -> Notes {
        let interrupt = Interrupt::default();
        NOTES.set(Notes {
            saves: course.saves,
            interrupt_at: course.interrupt_at,
            interrupt: interrupt.clone(),
            ..Notes::default()
        });
        let log = MemoryLog::default();
        let shared = BridgeState::new(&log);
        let resume = course.resume.map(|tag| {
            let path = self.path("checkpoints").join(tag);
            Resume {
                checkpoint: checkpoint::read(&path).expect("a checkpoint"),
                path,
                is_changed: false,
            }
        });
        if let Some(resume) = &resume {
            shared.resume(resume.checkpoint.hooks.iter().map(|hook| hook.name.clone()));
        }
        let mut task = self.task();
        let optimizer = self.manifest["optimizer"].clone();
        let optimizer: OptimizerConfig = serde_json::from_value(optimizer).expect("an optimizer");
        let mut optimizer = optimizer.build(task.parameters()).expect("an optimizer");
        let plan = TrainingPlan {
            seed: 5,
            epochs: EPOCHS,
            batch_size: 4,
            eval_batch_size: 4,
            accumulate: 3,
            initial_validation: true,
            ..TrainingPlan::default()
        };
        let hooks = Dispatcher::new(self.create(&shared));
        let trainer = Trainer::new(&mut task, optimizer.as_mut(), hooks, &shared, plan)
            .in_directory("seen", self.directory.path())
            .with_manifest(self.manifest.clone())
            .interruptible(&interrupt);
        let trainer = match resume {
            Some(resume) => trainer.resuming(resume),
            None => trainer,
        };
        let report = trainer.run();
        assert!(report.late_faults.is_empty(), "{:?}", report.late_faults);
        let mut notes = NOTES.take();
        if let RunOutcome::Failed(error) = &report.outcome {
            notes.failure = Some(error.to_string());
        }
        notes
    }

    /// What a checkpoint holds, by names, but for times.
    pub(super) fn content(&self, tag: &str) -> BTreeMap<String, String> {
        let path = self.path("checkpoints").join(tag);
        let content = checkpoint::read(&path).expect("a checkpoint");
        let mut all = BTreeMap::new();
        for (name, tensor) in &content.tensors {
            let bits = format!("{:?} {tensor}", tensor.dims());
            all.insert(name.clone(), bits);
        }
        for hook in &content.hooks {
            let state = hook.state.as_deref().map(without_measured);
            all.insert(format!("state of {}", hook.name), format!("{state:?}"));
        }
        let mut header = serde_json::to_value(&content.header).expect("JSON");
        header["seconds"] = Value::Null;
        for phase in header["metrics"].as_array_mut().into_iter().flatten() {
            let values = phase["values"].as_array_mut().expect("values");
            values.retain(|value| !is_measured(value[0].as_str().expect("a name")));
        }
        for (name, part) in header.as_object().expect("an object") {
            all.insert(name.clone(), part.to_string());
        }
        all
    }
}

/// A hook's state without the names of measured metrics, and without the lengths of files, whose measured values have
/// as many digits as they have.
fn without_measured(state: &[u8]) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("bytes");
                members.values_mut().for_each(strip);
            }
            Value::Array(elements) => {
                // Lists of metrics' names.
                elements.retain(|element| !element.as_str().is_some_and(is_measured));
                elements.iter_mut().for_each(strip);
            }
            _ => {}
        }
    }
    match serde_json::from_slice::<Value>(state) {
        Ok(mut value) => {
            strip(&mut value);
            value.to_string()
        }
        Err(_) => String::from_utf8_lossy(state).into_owned(),
    }
}

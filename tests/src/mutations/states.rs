//! State restored from checkpoints, in this process: the states of all standard hooks that have
//! one, and the counters of `state.json`. Each comes from a real run, which is resumed with the
//! damaged version.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sconce::bridge::{self, BridgeState, WritesText};
use sconce::checkpoint::{self, Checkpoint};
use sconce::dispatch::{Dispatcher, HookFault, LoadedHook as Hosted};
use sconce::log::MemoryLog;
use sconce::optim::Sgd;
use sconce::plugin::entry_error::EntryError;
use sconce::plugin::instance::HookInstance;
use sconce::plugin::library::Library;
use sconce::run::{Resume, RunError, RunOutcome, RunReport, Trainer, TrainingPlan};
use sconce::task::Supervised;
use sconce_plugin_api::abi::{SetupAbi, TextAbi};
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{TextRequest, WrittenText};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::in_process::{linked, mlp_task, spec_in};
use crate::{Workplace, artifacts};

/// Every standard hook with a state: its plugin, its name, and a configuration that gives it much
/// state.
pub const HOOKS: [(&str, &str, &str); 29] = [
    (
        "checkpoints",
        "checkpoint",
        r#"{"keep_last": 2, "iterations": 2, "best": [{"monitor": "loss"}]}"#,
    ),
    ("control", "loss-spike", r#"{"rtol": 0.001}"#),
    ("control", "stop-on-nan", "{}"),
    ("control", "early-stopping", r#"{"monitor": "loss"}"#),
    (
        "control",
        "on-plateau",
        r#"{"long_term": 3, "short_term": 1}"#,
    ),
    (
        "control",
        "check",
        r#"{"monitor": "loss", "required": 0.1, "otherwise": "warn"}"#,
    ),
    ("csv", "csv", "{}"),
    ("debugging", "gradient-flow", r#"{"every": 1}"#),
    (
        "debugging",
        "overfit-check",
        r#"{"one_batch": false, "iterations": 6, "otherwise": "warn"}"#,
    ),
    ("logging", "jsonl", r#"{"epochs_file": "epochs.jsonl"}"#),
    ("logging", "samples", r#"{"prompts": ["ab"]}"#),
    ("logging", "training-trace", "{}"),
    (
        "metrics",
        "compute-stats",
        r#"{"variables": {"outputs": ["mean", "median", "nan_count"]}}"#,
    ),
    (
        "metrics",
        "accumulate",
        r#"{"phases": ["train", "val"], "save": "npy"}"#,
    ),
    (
        "metrics",
        "classification",
        r#"{"top_k": [2], "confusion": {}}"#,
    ),
    ("metrics", "predictions", r#"{"phases": ["train", "val"]}"#),
    ("metrics", "output-mask", r#"{"masked_target": "ignore"}"#),
    ("metrics", "plot-lines", r#"{"by": "iteration"}"#),
    ("models", "activation-stats", r#"{"every": 1}"#),
    (
        "optimisation",
        "lr-schedule",
        r#"{"schedule": {"kind": "plateau", "monitor": "loss", "patience": 0}}"#,
    ),
    ("optimisation", "loss-scale", r#"{"mode": "dynamic"}"#),
    (
        "optimisation",
        "lr-range-test",
        r#"{"steps": 20, "stop": false}"#,
    ),
    ("optimisation", "swa", r#"{"start": 0}"#),
    ("optimisation", "prune", r#"{"amount": 0.5}"#),
    ("optimisation", "ema", r#"{"decay": 0.9}"#),
    ("profiling", "profile", "{}"),
    ("profiling", "memory", "{}"),
    ("report", "report", "{}"),
    ("tracking", "tensorboard", "{}"),
];

/// The iteration, of the six in two epochs, after which the checkpoint is saved.
const MIDDLE: u64 = 4;

/// Saves the checkpoint in the middle of the run.
struct Saver;

#[hook(name = "saver", about = "Saves a checkpoint in the middle of the run.")]
impl Hook for Saver {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Saver)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train && task.iteration() == MIDDLE {
            return task.checkpoint("middle").save();
        }
        Ok(())
    }
}

/// Stands for a model of text: repeats each prompt.
struct Echo;

impl WritesText for Echo {
    fn write(&self, request: &TextRequest) -> std::result::Result<Vec<WrittenText>, String> {
        let echo = |prompt: &String| WrittenText {
            text: prompt.clone(),
            ..WrittenText::default()
        };
        Ok(request.prompts.iter().map(echo).collect())
    }
}

/// A finished run with one hook, or none.
struct Played {
    library: Option<(Library, usize)>,
    directory: PathBuf,
    state: Vec<u8>,
}

/// Runs whose checkpoints are damaged.
pub(super) struct States {
    place: Workplace,
    task: RefCell<Supervised>,
    runs: Vec<Played>,
    resumed: RefCell<u64>,
}

/// Maximum number of accepted states per process that are tried in a run.
const MOST_RESUMED: u64 = 400;

impl States {
    /// Runs of all hooks with states.
    pub(super) fn of_hooks() -> States {
        let mut states = States::empty();
        for (index, (package, kind, _)) in HOOKS.iter().enumerate() {
            let path = artifacts().plugin(&format!("sconce-plugin-{package}"));
            let library = Library::open(&path).expect("a plugin");
            states.play_first(kind, Some((library, index)));
        }
        states
    }

    /// One run without hooks.
    pub(super) fn of_counters() -> States {
        let mut states = States::empty();
        states.play_first("none", None);
        states
    }

    fn empty() -> States {
        let place = Workplace::new(&[]);
        fs::create_dir(place.path("outside")).expect("a directory can be made");
        fs::write(place.path("outside/file"), "precious").expect("a file can be written");
        States {
            place,
            task: RefCell::new(mlp_task(&[4], 24, 8)),
            runs: Vec::new(),
            resumed: RefCell::new(0),
        }
    }

    fn play_first(&mut self, name: &str, library: Option<(Library, usize)>) {
        let directory = self.place.path(name);
        fs::create_dir(&directory).expect("a directory can be made");
        let mut played = Played {
            library,
            directory,
            state: Vec::new(),
        };
        // A run starts from the parameters that it is given.
        self.task = RefCell::new(mlp_task(&[4], 24, 8));
        let report = self.run(&played, None);
        assert!(faults(&report).is_empty(), "{name}: {:?}", report.outcome);
        let checkpoint = played.checkpoint();
        let state = checkpoint.hook(name).and_then(|hook| hook.state.clone());
        played.state = state.unwrap_or_default();
        assert!(
            !played.state.is_empty() || played.library.is_none(),
            "{name} has no state"
        );
        self.runs.push(played);
    }

    /// The states, each preceded by the number of its hook.
    pub(super) fn originals(&self) -> Vec<Vec<u8>> {
        let input =
            |(index, run): (usize, &Played)| [&[index as u8], run.state.as_slice()].concat();
        self.runs.iter().enumerate().map(input).collect()
    }

    /// The counters as they were saved.
    pub(super) fn counters(&self) -> Vec<u8> {
        fs::read(self.runs[0].middle().join("state.json")).expect("a file")
    }

    /// Gives a hook a state; returns whether it accepted it. A rejected state must not have changed
    /// any file, an accepted one no file outside the run's directory, and the run resumed with it
    /// must end without a panic.
    pub(super) fn take_state(&self, input: &[u8]) -> bool {
        let (index, state) = input.split_first().unwrap_or((&0, &[]));
        let run = &self.runs[usize::from(*index) % self.runs.len()];
        let kind = run.kind();
        let (inside, outside) = (files(&run.directory), files(&self.place.path("outside")));
        let log = MemoryLog::default();
        let shared = BridgeState::new(&log);
        let mut hook = run.instance(&shared).expect("a hook");
        let loaded = hook.load_state(state);
        let told = || format!("{kind}, given {}", String::from_utf8_lossy(state));
        assert_eq!(files(&self.place.path("outside")), outside, "{}", told());
        let is_accepted = match loaded {
            Ok(()) => {
                hook.save_state()
                    .unwrap_or_else(|error| panic!("{error:?}: {}", told()));
                true
            }
            Err(error) => {
                assert!(!error.is_panic(), "{error:?}: {}", told());
                assert_eq!(files(&run.directory), inside, "{}", told());
                false
            }
        };
        drop(hook);
        drop(shared);
        if is_accepted {
            restore(&run.directory, &inside);
            let count = self.resumed.replace_with(|count| *count + 1);
            if count < MOST_RESUMED {
                let mut checkpoint = run.checkpoint();
                let found = checkpoint.hooks.iter_mut().find(|hook| hook.name == kind);
                found.expect("the hook").state = Some(state.to_vec());
                self.resume(run, checkpoint, &told());
                restore(&run.directory, &inside);
            }
            assert_eq!(files(&self.place.path("outside")), outside, "{}", told());
            let strays = fs::read_dir(self.place.directory())
                .expect("entries")
                .count();
            assert_eq!(strays, self.runs.len() + 2, "{}", told());
        }
        is_accepted
    }

    /// Puts counters into the checkpoint, with correct checksums; returns whether it can be read.
    /// If so, the run resumed from it must end without a panic.
    pub(super) fn take_counters(&self, counters: &[u8]) -> bool {
        let run = &self.runs[0];
        let original = self.counters();
        replace(&run.middle(), "state.json", counters);
        let read = checkpoint::read(&run.middle());
        replace(&run.middle(), "state.json", &original);
        let Ok(checkpoint) = read else { return false };
        self.resume(run, checkpoint, &String::from_utf8_lossy(counters));
        true
    }

    fn resume(&self, run: &Played, checkpoint: Checkpoint, told: &str) {
        let report = self.run(run, Some(checkpoint));
        let panic = faults(&report)
            .into_iter()
            .find(|fault| fault.error.is_panic());
        assert!(panic.is_none(), "{}: {told}", panic.expect("a panic"));
    }

    fn run(&self, run: &Played, checkpoint: Option<Checkpoint>) -> RunReport {
        let log = MemoryLog::default();
        let shared = BridgeState::new(&log);
        shared.set_text(Echo);
        let resume = checkpoint.map(|checkpoint| Resume {
            checkpoint,
            path: run.middle(),
            is_changed: false,
        });
        if let Some(resume) = &resume {
            let known = resume.checkpoint.hooks.iter();
            shared.resume(known.map(|hook| hook.name.clone()));
        }
        let mut hooks: Vec<Hosted> = run.hook(&shared).into_iter().collect();
        hooks.push(linked::<Saver>(&json!({}), &shared));
        let plan = TrainingPlan {
            epochs: 2,
            batch_size: 8,
            eval_batch_size: 8,
            ..TrainingPlan::default()
        };
        let mut task = self.task.borrow_mut();
        let mut optimizer = Sgd::new(0.01);
        let hooks = Dispatcher::new(hooks);
        let trainer = Trainer::new(&mut *task, &mut optimizer, hooks, &shared, plan)
            .in_directory("states", &run.directory);
        match resume {
            Some(resume) => trainer.resuming(resume).run(),
            None => trainer.run(),
        }
    }
}

impl Played {
    fn middle(&self) -> PathBuf {
        self.directory.join("checkpoints/middle")
    }

    fn checkpoint(&self) -> Checkpoint {
        checkpoint::read(&self.middle()).expect("a whole checkpoint")
    }

    fn kind(&self) -> &'static str {
        self.library
            .as_ref()
            .map_or("none", |(_, index)| HOOKS[*index].1)
    }

    fn instance(&self, shared: &BridgeState<'_>) -> Option<HookInstance> {
        let (library, index) = self.library.as_ref()?;
        let (_, kind, config) = HOOKS[*index];
        let directory = self.directory.to_string_lossy();
        let setup = SetupAbi {
            host: std::ptr::from_ref(bridge::root()),
            context: shared.context(),
            name: TextAbi::new(kind),
            run_directory: TextAbi::new(&directory),
            manifest: TextAbi::new(r#"{"name": "states"}"#),
            seed: 0,
        };
        shared.register(kind);
        let created: Result<HookInstance, EntryError> =
            HookInstance::create(library, kind, config, &setup);
        Some(created.unwrap_or_else(|error| panic!("{kind}: {}", error.message)))
    }

    fn hook(&self, shared: &BridgeState<'_>) -> Option<Hosted> {
        let instance = self.instance(shared)?;
        let (package, kind, _) = HOOKS[self.library.as_ref()?.1];
        let mut spec = spec_in(&format!("sconce-plugin-{package}"), kind);
        let left_out = shared.requests.take_left_out();
        spec.points.retain(|point| !left_out.contains(point));
        Some(Hosted::new(spec, instance))
    }
}

/// The faults of a report's hooks; panics on any other error.
fn faults(report: &RunReport) -> Vec<&HookFault> {
    let first = match &report.outcome {
        RunOutcome::Failed(RunError::Hook(fault)) => Some(&**fault),
        RunOutcome::Failed(error) => panic!("{error}"),
        _ => None,
    };
    first.into_iter().chain(&report.late_faults).collect()
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The files below a directory, except checkpoints.
fn files(directory: &Path) -> Files {
    let mut all = Files::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
                all.insert(path.clone(), fs::read(&path).unwrap_or_default());
            } else if !path.ends_with("checkpoints") {
                open.push(path);
            }
        }
    }
    all
}

fn restore(directory: &Path, wanted: &Files) {
    for path in files(directory)
        .keys()
        .filter(|path| !wanted.contains_key(*path))
    {
        fs::remove_file(path).expect("a file can be removed");
    }
    for (path, content) in wanted {
        if fs::read(path).ok().as_ref() != Some(content) {
            fs::write(path, content).expect("a file can be written");
        }
    }
}

/// Replaces a file of a checkpoint, and updates its checksum in the index.
///
/// # Panics
///
/// If there is no checkpoint with this file.
pub fn replace(checkpoint: &Path, file: &str, content: &[u8]) {
    fs::write(checkpoint.join(file), content).expect("a file can be written");
    let index = checkpoint.join("index.json");
    let text = fs::read(&index).expect("an index");
    let mut value: Value = serde_json::from_slice(&text).expect("JSON");
    let files = value["files"].as_array_mut().expect("files");
    let entry = files.iter_mut().find(|entry| entry["name"] == file);
    let entry = entry.expect("the file is in the index");
    let digest = Sha256::digest(content);
    let hash = digest.iter().map(|byte| format!("{byte:02x}"));
    entry["bytes"] = json!(content.len());
    entry["sha256"] = json!(hash.collect::<String>());
    fs::write(index, value.to_string()).expect("an index can be written");
}

//! The small run that tests play: a real run, in the test's own directory.
//!
//! **Parts**
//! - `odd_task`: its task. `witness`: observers among its hooks. `again`: has the hook loaded again after every iteration.
//! - `trial`: the hook outside any run. `configs`: configurations for it, from its schema.
//! - `resources`: what the process holds, and limits on that.

mod again;
pub(super) mod configs;
pub(super) mod odd_task;
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "limits on files"))]
pub(super) mod resources;
pub(super) mod trial;
pub(super) mod witness;

use std::path::{Path, PathBuf};
use std::ptr;

use candle_core::DType;
use sconce_plugin_api::abi::{SetupAbi, TextAbi};
use sconce_plugin_api::metadata::HookMetadata;
use sconce_plugin_api::{HookKind, Phase, Point, Priority};
use serde_json::Value;

use super::finding::{Finding, NO_RUN, failed, skipped, warning};
use super::subject::Subject;
use crate::bridge::{self, BridgeState};
use crate::checkpoint::{self, Store};
use crate::diagnostic::render;
use crate::dispatch::{HookFault, HookSpec, LoadedHook};
use crate::manifest::TaskSource;
use crate::parameters::Parameters;
use crate::plugin::instance::HookInstance;
use crate::run::{Resume, RunError, RunOutcome, RunReport};
use crate::session::{self, Checked, FirstWeights, FromManifest, Selection, StartFailure};
use odd_task::{OddTask, Oddity};
use witness::{Marker, NAME, Recorder, WitnessScript};

/// Description of a run to play.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Name of the run within the test.
    pub(super) name: &'static str,
    /// Number of instances of the hook.
    pub(super) hooks: usize,
    /// Their configuration; `None` for the test's.
    pub(super) config: Option<Value>,
    /// Other changes to the manifest, by JSON pointer.
    pub(super) edits: Vec<(&'static str, Value)>,
    /// The actions of the witness.
    pub(super) part: WitnessScript,
    /// The peculiarity of the task.
    pub(super) oddity: Oddity,
    /// Whether the host refuses all requests.
    pub(super) refuses: bool,
    /// Whether nothing is recorded.
    pub(super) is_deaf: bool,
    /// The checkpoint to resume from.
    pub(super) resume: Option<PathBuf>,
    /// After every how many iterations the hooks are loaded again.
    pub(super) reloads: Option<u64>,
    /// If set, only this phase is evaluated.
    pub(super) evaluates: Option<Phase>,
    /// The run's directory; `None` for a new one.
    pub(super) directory: Option<PathBuf>,
}

impl Script {
    /// Two epochs of three batches, with one instance of the hook.
    pub(super) fn plain(name: &'static str) -> Script {
        Script {
            name,
            hooks: 1,
            config: None,
            edits: Vec::new(),
            part: WitnessScript::default(),
            oddity: Oddity::None,
            refuses: false,
            is_deaf: false,
            resume: None,
            reloads: None,
            evaluates: None,
            directory: None,
        }
    }
}

/// Results of a run.
pub(super) struct Played {
    pub(super) report: RunReport,
    pub(super) recorder: Recorder,
    /// Bits of all parameters.
    pub(super) bits: Vec<u32>,
    /// Directory of the run.
    pub(super) directory: PathBuf,
}

/// The reason why a run could not start.
pub(super) struct NotStarted {
    /// The full message.
    pub(super) text: String,
}

impl NotStarted {
    /// The reason in one line.
    pub(super) fn line(&self) -> String {
        let line = self.text.lines().next().unwrap_or_default();
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    }

    /// Whether the hook panicked.
    pub(super) fn is_panic(&self) -> bool {
        self.text.contains("` panicked when ")
    }
}

impl From<StartFailure> for NotStarted {
    fn from(failure: StartFailure) -> NotStarted {
        NotStarted {
            text: render::text(&failure.diagnostics, false).trim().to_owned(),
        }
    }
}

impl From<std::io::Error> for NotStarted {
    fn from(error: std::io::Error) -> NotStarted {
        NotStarted {
            text: format!("the test's files: {error}"),
        }
    }
}

impl Subject {
    /// Plays a run. If the hook rejects its configuration, the test is skipped; if it panics, the test fails.
    pub(super) fn play(&self, script: &Script) -> Result<Played, Finding> {
        self.try_play(script).map_err(|refusal| {
            if refusal.is_panic() {
                return failed(refusal.text);
            }
            let hint = if self.is_configured() {
                ""
            } else {
                "\ngive a configuration that it takes with `--config`"
            };
            skipped(format!("{NO_RUN}: {}{hint}", refusal.line()))
        })
    }

    /// Plays a run.
    pub(super) fn try_play(&self, script: &Script) -> Result<Played, NotStarted> {
        let checked = self.checked(script)?;
        self.play_checked(script, checked)
    }

    /// Plays a run whose manifest has been read and whose libraries are open.
    pub(super) fn play_checked(
        &self,
        script: &Script,
        checked: Checked,
    ) -> Result<Played, NotStarted> {
        let directory = match &script.directory {
            Some(directory) => directory.clone(),
            None => self.place.join(script.name),
        };
        // If that fails, the run should deal with it.
        drop(std::fs::create_dir_all(&directory));
        let resolved = checked.manifest.resolved();
        let mut prepared = checked.prepare(&FromManifest, FirstWeights::Manifest)?;
        prepared.task = Box::new(OddTask::new(prepared.task, script.oddity));
        let recorder = Recorder::new(script.refuses, script.is_deaf);
        let resume = match &script.resume {
            Some(path) => Some(Resume {
                checkpoint: checkpoint::read(path).map_err(|error| NotStarted {
                    text: error.to_string(),
                })?,
                path: path.clone(),
                is_changed: false,
            }),
            None => None,
        };
        let shared = BridgeState::new(&recorder).with_witness(&recorder);
        prepared.show_plan(&shared);
        let first = vec![marker(&script.part, &shared)?];
        let ready = prepared.ready(&directory, &shared, first, resume.as_ref())?;
        let ready = ready
            .with(|trainer| trainer.with_manifest(resolved).with_hook_time_limit(1.0))
            .resuming(resume);
        let ready = match script.reloads {
            Some(iterations) => ready.with(|trainer| trainer.reloading(again::every(iterations))),
            None => ready,
        };
        let report = match script.evaluates {
            Some(phase) => ready.evaluate(phase),
            None => ready.run(),
        };
        drop(shared);
        Ok(Played {
            report,
            recorder,
            bits: bits(prepared.task.parameters()),
            directory,
        })
    }

    /// Reads the manifest of a run and opens its libraries.
    pub(super) fn checked(&self, script: &Script) -> Result<Checked, NotStarted> {
        let config = match &script.config {
            Some(config) => config.clone(),
            None => self.config().map_err(|finding| NotStarted {
                text: finding.facts,
            })?,
        };
        self.doing(format_args!("the run `{}` with {config}", script.name));
        let mut manifest = self.manifest(script.hooks, &config);
        for (pointer, value) in &script.edits {
            set(&mut manifest, pointer, value.clone());
        }
        let file = self.place.join(format!("{}.json", script.name));
        std::fs::write(&file, manifest.to_string())?;
        let source = TaskSource::Manifest;
        Ok(session::check(
            &file,
            &crate::manifest::Overlay::default(),
            &[],
            &Selection::default(),
            source,
        )?)
    }
}

/// The witness, a hook linked into this program, which comes first.
fn marker(part: &WitnessScript, shared: &BridgeState<'_>) -> Result<LoadedHook, NotStarted> {
    let told = |text: String| NotStarted {
        text: format!("the test's own hook: {text}"),
    };
    let metadata: HookMetadata =
        serde_json::from_str(Marker::METADATA).map_err(|error| told(error.to_string()))?;
    let config = serde_json::to_string(part).map_err(|error| told(error.to_string()))?;
    shared.register(NAME);
    let setup = setup(NAME, "", shared);
    let instance = HookInstance::linked::<Marker>(&config, &setup).map_err(|e| told(e.message))?;
    let points = metadata.points.iter();
    let spec = HookSpec {
        name: NAME.to_owned(),
        kind: metadata.name.clone(),
        priority: Priority::new(metadata.priority).unwrap_or_default(),
        points: points
            .filter_map(|point| Point::from_number(point.number))
            .collect(),
        ..HookSpec::default()
    };
    Ok(LoadedHook::new(spec, instance))
}

/// The setup for hooks created without a manifest.
pub(super) fn setup(name: &str, directory: &str, shared: &BridgeState<'_>) -> SetupAbi {
    SetupAbi {
        host: ptr::from_ref(bridge::root()),
        context: shared.context(),
        name: TextAbi::new(name),
        run_directory: TextAbi::new(directory),
        manifest: TextAbi::new("{}"),
        seed: 0,
    }
}

/// Sets the value at a JSON pointer, whose parent must exist.
fn set(value: &mut Value, pointer: &str, new: Value) {
    if let Some((parent, key)) = pointer.rsplit_once('/')
        && let Some(Value::Object(members)) = value.pointer_mut(parent)
    {
        members.insert(key.to_owned(), new);
    }
}

/// The bits of all parameters, which are single-precision floats.
fn bits(parameters: &Parameters) -> Vec<u32> {
    let numbers = |parameter: &crate::parameters::Parameter| -> Vec<f32> {
        let flat = parameter.tensor().to_dtype(DType::F32);
        let flat = flat.and_then(|tensor| tensor.flatten_all());
        flat.and_then(|tensor| tensor.to_vec1()).unwrap_or_default()
    };
    let all = parameters.iter().flat_map(numbers);
    all.map(f32::to_bits).collect()
}

impl Played {
    /// The faults of the tested hooks, in order.
    pub(super) fn faults(&self) -> Vec<&HookFault> {
        let first = match &self.report.outcome {
            RunOutcome::Failed(RunError::Hook(fault)) => Some(&**fault),
            _ => None,
        };
        let all = first.into_iter().chain(&self.report.late_faults);
        all.filter(|fault| fault.hook != NAME).collect()
    }

    /// Checks that nothing panicked. An error, if any, is returned: whether a hook may fail is for the test
    /// to decide.
    pub(super) fn without_panic(&self) -> Result<Option<String>, Finding> {
        let faults = self.faults();
        if let Some(panic) = faults.iter().find(|fault| fault.error.is_panic()) {
            return Err(failed(panic.to_string()));
        }
        if let RunOutcome::Failed(error) = &self.report.outcome
            && faults.is_empty()
            && !matches!(error, RunError::Hook(_))
        {
            return Ok(Some(error.to_string()));
        }
        Ok(faults.first().map(ToString::to_string))
    }

    /// Checks that there was neither an error nor a panic. With a configuration made up by the test, an error
    /// may be justified.
    pub(super) fn without_fault(&self, subject: &Subject) -> Result<(), Finding> {
        let Some(fault) = self.without_panic()? else {
            return Ok(());
        };
        match subject.made_up()? {
            Some(config) => Err(warning(format!(
                "with the made-up configuration {config}: {fault}\ngive one in which nothing is wrong \
                 with `--config`"
            ))),
            None => Err(failed(fault)),
        }
    }

    /// The checkpoint that the witness had saved after this iteration.
    pub(super) fn checkpoint(&self, iteration: u64) -> PathBuf {
        Store::of(&self.directory).path_of(&format!("at-{iteration}"))
    }

    /// A short description of how the run ended.
    pub(super) fn ending(&self) -> String {
        match &self.report.outcome {
            RunOutcome::Completed => "completed".to_owned(),
            RunOutcome::Stopped { reason, hook } => format!("stopped by `{hook}`: {reason}"),
            RunOutcome::Interrupted(signal) => format!("interrupted by {}", signal.name()),
            RunOutcome::Failed(error) => {
                let text = error.to_string();
                format!(
                    "ended with an error: {}",
                    text.lines().next().unwrap_or_default()
                )
            }
        }
    }
}

/// The state of the tested hook in a checkpoint.
pub(super) fn state_in(checkpoint: &Path) -> Result<Vec<u8>, Finding> {
    let read = checkpoint::read(checkpoint).map_err(|error| {
        skipped(format!(
            "the run did not come as far as its checkpoint: {error}"
        ))
    })?;
    let hook = read.hooks.iter().find(|hook| hook.name != NAME);
    Ok(hook.and_then(|hook| hook.state.clone()).unwrap_or_default())
}

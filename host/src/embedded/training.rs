//! A training in this process, from the manifest to the run's directory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::log::EventLog;
use super::observer::EventObserver;
use super::{Events, TrainingRequest};
use crate::allocator::{self, StepMemory};
use crate::bridge::BridgeState;
use crate::checkpoint::Store;
use crate::data::{Provided, ProvidedFile};
use crate::diagnostic::Diagnostic;
use crate::kernels::threads;
use crate::manifest::{Overlay, TaskSource};
use crate::plugin::trial;
use crate::record::{self, Origin};
use crate::run::{Interrupt, Resume, RunOutcome, RunReport};
use crate::session::{
    self, Checked, FirstWeights, FromManifest, Output, Prepared, ResumePoint, Selection,
    StartFailure,
};

/// A run that has ended.
#[derive(Debug)]
pub struct EmbeddedRun {
    /// Its output directory, absolute.
    pub directory: PathBuf,
    /// How it ended: `completed`, `stopped`, `interrupted` or `failed`.
    pub outcome: &'static str,
    /// Why it was stopped; empty otherwise.
    pub reason: String,
    /// The last checkpoint from which it can be resumed.
    pub last_checkpoint: Option<PathBuf>,
    /// What ended it, if something failed.
    pub failure: Option<RunFailure>,
    /// Faults of hooks after training, and results that could not be written.
    pub problems: Vec<Diagnostic>,
}

/// What ended a run.
#[derive(Clone, Debug)]
pub struct RunFailure {
    /// What happened, and what to do.
    pub text: String,
    /// Exit code of the command line for it (see [`exit`](crate::exit)).
    pub code: u8,
    /// Name of the hook at fault, if one is.
    pub hook: Option<String>,
}

/// Whether a training is under way.
static IS_TRAINING: AtomicBool = AtomicBool::new(false);

/// The only training of the process, until this is dropped.
struct OnlyTraining;

impl OnlyTraining {
    fn begin() -> Result<OnlyTraining, StartFailure> {
        if IS_TRAINING.swap(true, Ordering::AcqRel) {
            let problem = "another training of this process is under way";
            let hint = "wait for its end, or start this one in a process of its own";
            return Err(StartFailure::usage(vec![
                Diagnostic::new(problem).hint(hint),
            ]));
        }
        allocator::keep_freed_memory();
        Ok(OnlyTraining)
    }
}

impl Drop for OnlyTraining {
    fn drop(&mut self) {
        IS_TRAINING.store(false, Ordering::Release);
    }
}

/// Trains on this thread. Another one may raise `interrupt`, and takes what happens from `events`.
///
/// # Errors
///
/// If the run can't start. What ends a run that has started is in its result.
pub fn train(
    mut request: TrainingRequest,
    interrupt: &Interrupt,
    events: &Events,
) -> Result<EmbeddedRun, StartFailure> {
    let _only = OnlyTraining::begin()?;
    let begin = Instant::now();
    let provided = provide(std::mem::take(&mut request.data))?;
    let request = &request;
    let log = EventLog::new(events);
    // Trials are children of this program's, where there is one.
    if crate::subprocess::is_program_known() {
        trial::enable();
    }
    let checked = checked(request)?;
    // They are read by now.
    drop(provided);
    log.warn(&checked.warnings);
    take_threads(&checked)?;
    let origin = Origin::of(&checked, TaskSource::Manifest, None)?;
    let directory = request.output.as_ref();
    let directory = directory.unwrap_or(&checked.manifest.output).clone();
    let found = found_checkpoint(request, &directory, &origin, &checked, &log)?;
    let weights = match &found {
        Some(_) => FirstWeights::Checkpoint,
        None => FirstWeights::Manifest,
    };
    let mut prepared = checked.prepare(&FromManifest, weights)?;
    log.warn(&prepared.weights_warnings());
    log.warn(&prepared.warnings);
    let (output, resume) = opened(request, &directory, found, &prepared, &log)?;
    let store = output.store.clone();
    record::begin(store.run_directory(), &origin.manifest, &prepared)?;
    let shared = BridgeState::new(&log);
    prepared.show_plan(&shared);
    log.info(&record::opening_lines(
        &prepared,
        &output.path,
        resume.as_ref(),
    ));
    let observer = EventObserver::new(events);
    let ready = prepared.ready(&output.path, &shared, Vec::new(), resume.as_ref())?;
    let manifest = origin.manifest.clone();
    let ready = ready
        .with(|trainer| {
            let trainer = trainer.with_manifest(manifest).interruptible(interrupt);
            let trainer = trainer.saving_to(store.clone());
            trainer.watched_by(&observer).begun_at(begin)
        })
        .resuming(resume);
    let (mut report, hooks) = {
        let _memory = StepMemory::keep();
        ready.run_and_keep_hooks()
    };
    // Before the hooks are dropped: one that does not come back must not cost the results.
    let mut problems = record::write_results(&store, &mut report, &prepared, &origin);
    report.close_hooks(hooks, &shared);
    if problems.is_empty() {
        problems = record::write_record(&store, &report, &prepared, &origin);
    }
    let faults = report.late_faults.iter();
    problems.extend(faults.map(|fault| Diagnostic::new(fault.to_string())));
    Ok(ended(report, problems, &output, &store))
}

/// Checks a manifest, its plugins and its data as [`train`] would, without creating hooks or a directory; returns the warnings.
///
/// # Errors
///
/// If the run could not start.
pub fn check(mut request: TrainingRequest) -> Result<Vec<Diagnostic>, StartFailure> {
    let _only = OnlyTraining::begin()?;
    let _provided = provide(std::mem::take(&mut request.data))?;
    let checked = checked(&request)?;
    let mut warnings = checked.warnings.clone();
    let prepared = checked.prepare(&FromManifest, FirstWeights::Manifest)?;
    warnings.extend(prepared.weights_warnings());
    warnings.extend(prepared.warnings);
    Ok(warnings)
}

fn provide(data: Vec<(PathBuf, ProvidedFile)>) -> Result<Vec<Provided>, StartFailure> {
    let provided = data
        .into_iter()
        .map(|(path, file)| Provided::new(&path, file));
    provided
        .collect::<Result<_, _>>()
        .map_err(|error| StartFailure::data(vec![Diagnostic::new(error.to_string())]))
}

fn checked(request: &TrainingRequest) -> Result<Checked, StartFailure> {
    let overlay = Overlay {
        text: request.text.clone(),
        ..Overlay::new(&[], &request.set)
    };
    session::check(
        &request.manifest,
        &overlay,
        &request.plugins,
        &Selection::default(),
        TaskSource::Manifest,
    )
}

/// Computes with the threads that the manifest asks for. A process starts them once.
fn take_threads(checked: &Checked) -> Result<(), StartFailure> {
    let Some(wanted) = checked.manifest.threads else {
        return Ok(());
    };
    threads::ask(wanted);
    let asked = threads::threads().asked;
    if asked == wanted {
        return Ok(());
    }
    let problem = format!(
        "the manifest asks for {wanted} threads, and this process computes with {asked} already"
    );
    let hint = "results depend on that number: train in a new process (restart the notebook's kernel), or give both \
                runs the same `threads`";
    Err(StartFailure::usage(vec![
        Diagnostic::new(problem).hint(hint),
    ]))
}

/// The checkpoint to resume from, with the output directory if it is in that.
fn found_checkpoint(
    request: &TrainingRequest,
    directory: &Path,
    origin: &Origin<'_>,
    checked: &Checked,
    log: &EventLog<'_>,
) -> Result<Option<(Option<Output>, ResumePoint)>, StartFailure> {
    let Some(what) = &request.resume else {
        return Ok(None);
    };
    let named = Store::of(directory);
    let is_new = !directory.exists() && ResumePoint::is_elsewhere(what, &named);
    let output = if is_new {
        None
    } else {
        Some(Output::open_existing(directory)?)
    };
    let store = output.as_ref().map_or(&named, |output| &output.store);
    let found = ResumePoint::find(what, store, &origin.manifest, &checked.hooks)?;
    log.warn(&found.warnings);
    Ok(Some((output, found)))
}

/// Opens the output directory, if it isn't, and makes what was found ready to be resumed.
fn opened(
    request: &TrainingRequest,
    directory: &Path,
    found: Option<(Option<Output>, ResumePoint)>,
    prepared: &Prepared,
    log: &EventLog<'_>,
) -> Result<(Output, Option<Resume>), StartFailure> {
    let Some((output, found)) = found else {
        let output = Output::open(directory)?;
        output.begin(request.overwrite)?;
        return Ok((output, None));
    };
    let (mut resume, warnings) = found.resume(prepared, request.allow_changes, true)?;
    log.warn(&warnings);
    let output = match output {
        Some(output) => output,
        None => Output::open(directory)?,
    };
    ResumePoint::bring(&mut resume, &output)?;
    output.forget_end()?;
    Ok((output, Some(resume)))
}

fn ended(
    report: RunReport,
    problems: Vec<Diagnostic>,
    output: &Output,
    store: &Store,
) -> EmbeddedRun {
    let (outcome, reason, failure) = match report.outcome {
        RunOutcome::Completed => ("completed", String::new(), None),
        RunOutcome::Stopped { reason, .. } => ("stopped", reason, None),
        RunOutcome::Interrupted(signal) => ("interrupted", signal.name().to_owned(), None),
        RunOutcome::Failed(error) => {
            let problem = Diagnostic::new(error.to_string());
            let problem = match store.vanished() {
                Some(reason) => problem.note(reason),
                None => problem,
            };
            let failure = RunFailure {
                text: crate::diagnostic::render::text(&[problem], false),
                code: error.code(),
                hook: error.hook().map(str::to_owned),
            };
            ("failed", String::new(), Some(failure))
        }
    };
    let inexact = report.inexact_checkpoint;
    EmbeddedRun {
        directory: output.path.clone(),
        outcome,
        reason,
        last_checkpoint: report
            .last_checkpoint
            .or(inexact)
            .filter(|path| path.exists()),
        failure,
        problems,
    }
}

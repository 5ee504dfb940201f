//! `sconce run`: trains a model as described by a manifest.
//!
//! **Parts.** Options: `first_look`, `selection`, `verbosity`; `folds`, a run for each part of the data. Before the run: `hooks_table`,
//! `copies`, `summation` say what is to be expected; after it, `conclusion` what came of it, and `out_of_memory` what to do.

pub(in crate::cli) mod conclusion;
pub(in crate::cli) mod copies;
pub(in crate::cli) mod first_look;
pub(in crate::cli) mod folds;
pub(in crate::cli) mod hooks_table;
mod narrower;
pub(in crate::cli) mod out_of_memory;
pub(in crate::cli) mod selection;
pub(in crate::cli) mod summation;
pub(in crate::cli) mod verbosity;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use self::conclusion::conclude;
use self::first_look::FirstLook;
use self::folds::FoldArgs;
use self::out_of_memory::OutOfMemory;
use self::selection::SelectionOptions;
use self::summation::JointTraining;
use self::verbosity::Verbosity;
use crate::allocator;
use crate::bridge::BridgeState;
use crate::checkpoint::Store;
use crate::cli::ManifestArgs;
use crate::cli::prepare;
use crate::cli::process::signals;
use crate::cli::ranks::together::{self, RankLog};
use crate::cli::resume::{self, ResumeArgs};
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::dispatch::Dispatcher;
use crate::exit;
use crate::faults::{self, Guard};
use crate::log::{Level, Log, StderrLog};
use crate::manifest::{self, Overlay};
use crate::record::{self, Origin};
use crate::run::{Resume, RunOutcome, RunReport};
use crate::session::{
    self, Checked, FirstWeights, HookPlan, Output, Prepared, Ready, ReloadWatch, ResumePoint,
    RunReloads, StartFailure, TaskBuilder,
};
use crate::team::{Team, meeting};
use crate::ui::View;
use sconce_base::held_directory::HeldDirectory;

/// Arguments of `sconce run`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Output directory of the run, instead of the manifest's; relative to the current directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    selection: SelectionOptions,
    #[command(flatten)]
    look: FirstLook,
    #[command(flatten)]
    folds: FoldArgs,
    /// Ends once this many epochs are trained and validated, to go on later with `--resume`: nothing else of the run changes,
    /// such as its schedules.
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "folds")]
    until: Option<u64>,
    #[command(flatten)]
    verbosity: Verbosity,
    /// Shows the run on the full terminal: curves, metrics, times, log. Keys stop it, save a
    /// checkpoint or validate; `?` lists them. Without a terminal: plain lines.
    #[arg(long)]
    ui: bool,
    /// How often the run is started again, from its last checkpoint, after its process was killed, has crashed or did not come
    /// back.
    #[cfg(unix)]
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["dry_run", "folds"])]
    restarts: u32,
}

pub(in crate::cli) fn run(
    arguments: &RunArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    #[cfg(unix)]
    if arguments.restarts > 0 {
        return crate::cli::ranks::launch::run_with_restarts(arguments.restarts);
    }
    let mut set = arguments.look.overrides(&arguments.manifest.set);
    set.extend(arguments.folds.overrides()?);
    let overlay = Overlay::new(&arguments.manifest.layers, &set);
    if let Some(folds) = arguments.folds.all() {
        let manifest = manifest::load(&arguments.manifest.file, &overlay, tasks.source())
            .map_err(StartFailure::usage)?;
        let output = arguments.output.as_ref().unwrap_or(&manifest.output);
        return folds::run_all(
            folds,
            output,
            &arguments.resume,
            &record::resolved(&manifest)?,
        );
    }
    let team = together::join(&arguments.manifest, &overlay, tasks)?;
    let ended = try_run(arguments, &overlay, tasks, team.as_ref());
    let Ended {
        report,
        out_of_memory,
        store,
        is_written,
    } = match (ended, &team) {
        (Err(failure), Some(team)) => return Err(together::fail(team, failure)),
        (ended, _) => ended?,
    };
    if report.has_lost_a_hook() {
        meeting::note_accident();
    }
    let mut code = conclude(&report, out_of_memory.as_ref(), store.vanished());
    if code == exit::DONE && !is_written {
        code = exit::TRAINING;
    }
    let is_unfinished = matches!(
        report.outcome,
        RunOutcome::Failed(_) | RunOutcome::Interrupted(_)
    ) || !is_written;
    if arguments.look.dry_run {
        output::line("a dry run: nothing of it was kept");
        return Ok(code);
    }
    let is_told = team.is_none_or(|team| team.is_first());
    let last = report
        .last_checkpoint
        .filter(|path| is_told && path.exists());
    if let Some(path) = last.filter(|_| is_unfinished) {
        let command = resume::command(&path, &store);
        if let Some(inexact) = report.inexact_checkpoint {
            let command = resume::command(&inexact, &store);
            output::line("from where the error was, not bit for bit:");
            output::line(&format!("  {command}"));
        }
        output::line("continue with:");
        output::line(&format!("  {command}"));
    }
    Ok(code)
}

/// A finished run.
struct Ended {
    report: RunReport,
    out_of_memory: Option<OutOfMemory>,
    store: Store,
    /// Whether its results were written to the output directory.
    is_written: bool,
}

fn try_run(
    arguments: &RunArgs,
    overlay: &Overlay,
    tasks: &dyn TaskBuilder,
    team: Option<&Team>,
) -> Result<Ended, StartFailure> {
    let ManifestArgs { file, plugins, .. } = &arguments.manifest;
    let selection = arguments.selection.selection();
    let checked = session::check(file, overlay, plugins, &selection, tasks.source())?;
    let is_first = team.is_none_or(Team::is_first);
    // The first rank warns for all: they check the same.
    let warn = |warnings: &[Diagnostic]| {
        if is_first {
            output::diagnostics(warnings);
        }
    };
    warn(&checked.warnings);
    if team.is_none() {
        prepare::set_threads(checked.manifest.threads);
    }
    let origin = Origin::of(&checked, tasks.source(), team)?;
    let passing = passing_directory(&arguments.look)?;
    let wanted = match &passing {
        Some(passing) => passing.path(),
        None => arguments
            .output
            .as_ref()
            .unwrap_or(&checked.manifest.output),
    };
    let of_fold = arguments.folds.directory(wanted);
    let directory = of_fold.as_path();
    let found = resume_point(arguments, directory, &origin, &checked)?;
    let weights = match &found {
        Some(_) => FirstWeights::Checkpoint,
        None => FirstWeights::Manifest,
    };
    let mut prepared = checked.prepare(tasks, weights)?;
    warn(&prepared.weights_warnings());
    // A dry run is deliberately too short for most of the manifest's settings, so their warnings
    // are skipped.
    let is_dry = arguments.look.dry_run;
    if !is_dry {
        warn(&prepared.warnings);
    }
    let (output, resume) = begin(&arguments.resume, directory, &prepared, found, is_first)?;
    if let Some(output) = &output {
        begin_record(output.store.run_directory(), &origin.manifest, &prepared)?;
    }
    if let Some(team) = team {
        warn(&together::compare(team, &prepared, &origin.manifest)?);
    }
    let joint = summation::choose(team, &prepared)?;
    let opened = output.as_ref().map(|output| output.path.as_path());
    let (run_path, own_path) = if let Some(team) = team {
        together::share_directories(team, opened)?
    } else {
        let path = opened.unwrap_or(directory).to_owned();
        (path.clone(), path)
    };
    let store = store(output.as_ref(), &run_path);

    // Kept until everything of the run is written.
    let guard = watch(&own_path, &prepared, team);
    let lines = arguments.verbosity.log();
    let view = (arguments.view(&prepared.manifest.name, lines)).filter(|_| is_first);
    let run_log = log(view.as_ref(), &own_path, lines, is_first);
    let log = run_log.as_ref();
    let of_one = BridgeState::new(log).with_trail(guard.trail());
    let shared = match team {
        Some(team) => of_one.with_ranks(team),
        None => of_one,
    };
    if !is_dry {
        prepared.show_plan(&shared);
    }
    let begins = (resume.as_ref(), joint.as_ref());
    let mut opening = opening(arguments, &prepared, &run_path, begins);
    // Several ranks would have to change libraries at the same time.
    let reloads = team.is_none().then(|| RunReloads::of(&prepared, &run_path));
    let hooked = prepared.ready(&own_path, &shared, Vec::new(), resume.as_ref())?;
    opening.push(hooks_table::text(hooked.hooks().hooks()));
    log_all(log, &opening);
    let interrupt = signals::install();
    let resumed = hooked
        .with(|trainer| {
            let trainer = (trainer.with_manifest(origin.manifest.clone()))
                .interruptible(&interrupt)
                .until(arguments.until)
                .saving_to(store.clone());
            match joint {
                Some(joint) => joint.of(trainer),
                None => trainer,
            }
        })
        .resuming(resume);
    let ready = match &reloads {
        Some(reloads) => reloads.serve(resumed),
        None => resumed,
    };
    let looks = looks_for_libraries(reloads.as_ref(), is_first.then_some(&*run_path), log);
    let (mut report, hooks) = run_in(view.as_ref(), ready, log);
    drop(looks);
    // Before the hooks are dropped: one that does not come back must not cost the results.
    let written = !is_first || write_results(&store, &mut report, &prepared, &origin);
    report.close_hooks(hooks, &shared);
    let is_written = written && (!is_first || write_record(&store, &report, &prepared, &origin));
    drop(output);
    Ok(Ended {
        out_of_memory: out_of_memory(&report, &prepared, tasks),
        report,
        store,
        is_written,
    })
}

/// The checkpoints of the run in this directory, which is held since it was opened; on ranks above the first, from now on.
fn store(output: Option<&Output>, run: &Path) -> Store {
    let opened = output.map(|output| output.store.clone());
    opened.unwrap_or_else(|| Store::of(run).holding())
}

/// What is logged before the run: its own lines, those of its ranks, and what another precision would bring.
fn opening(
    arguments: &RunArgs,
    prepared: &Prepared,
    run: &Path,
    (resume, joint): (Option<&Resume>, Option<&JointTraining>),
) -> Vec<String> {
    let mut lines = record::opening_lines(prepared, run, resume);
    lines.extend(joint.into_iter().flat_map(JointTraining::opening_lines));
    if !arguments.look.dry_run && resume.is_none() {
        lines.extend(narrower::line(prepared, arguments.verbosity.log()));
    }
    lines
}

fn log_all(log: &dyn Log, messages: &[String]) {
    for message in messages {
        log.log(Level::Info, "sconce", message);
    }
}

/// What the run resumes from, if it does, with the output directory on the first rank.
fn resume_point(
    arguments: &RunArgs,
    directory: &Path,
    origin: &Origin<'_>,
    checked: &Checked,
) -> Result<Option<(Option<Output>, ResumePoint)>, StartFailure> {
    let (manifest, team) = (&origin.manifest, origin.team);
    let begins = arguments.folds.is_to_begin(directory);
    let found = match arguments.resume.in_directory(directory) {
        Some(what) if team.is_none_or(Team::is_first) && !begins => {
            // Resuming must not create a directory, unless the checkpoint is one of another: then only when it can be
            // resumed from.
            let named = Store::of(directory);
            let is_new = !directory.exists() && ResumePoint::is_elsewhere(what, &named);
            let output = if is_new {
                None
            } else {
                Some(Output::open_existing(directory)?)
            };
            let store = output.as_ref().map_or(&named, |output| &output.store);
            let found = ResumePoint::find(what, store, manifest, &checked.hooks)?;
            output::diagnostics(&found.warnings);
            Some((output, found))
        }
        _ => None,
    };
    let found = match team {
        Some(team) => {
            let path = found.as_ref().map(|(_, found)| found.path());
            let shared = together::share_checkpoint(team, path)?;
            found.or_else(|| {
                let (path, checkpoint) = shared?;
                let hooks = &checked.hooks;
                let found = ResumePoint::of_first_rank(path, checkpoint, manifest, hooks);
                Some((None, found))
            })
        }
        None => found,
    };
    let ranks = team.map_or(1, Team::size);
    Ok(found.map(|(output, found)| {
        let facts = &found.checkpoint.header.facts;
        let changes = session::rank_changes(facts, &checked.manifest, ranks);
        (output, found.with_changes(changes))
    }))
}

/// Opens the output directory on the first rank, if it isn't, and makes what was found ready to be resumed.
fn begin(
    arguments: &ResumeArgs,
    directory: &Path,
    prepared: &Prepared,
    found: Option<(Option<Output>, ResumePoint)>,
    is_first: bool,
) -> Result<(Option<Output>, Option<Resume>), StartFailure> {
    if is_first && arguments.overwrite && !Output::look(directory)?.is_empty() {
        // Checked before anything of the earlier run is removed; warnings are printed when the hooks
        // are created.
        prepared.rehearse()?;
    }
    match found {
        Some((output, found)) => {
            let (mut resume, warnings) =
                found.resume(prepared, arguments.allow_changes, is_first)?;
            output::diagnostics(&warnings);
            let output = match output {
                None if is_first => Some(Output::open(directory)?),
                output => output,
            };
            if let Some(output) = &output {
                ResumePoint::bring(&mut resume, output)?;
                output.forget_end()?;
            }
            Ok((output, Some(resume)))
        }
        None if is_first => {
            let output = Output::open(directory)?;
            output.begin(arguments.overwrite)?;
            Ok((Some(output), None))
        }
        None => Ok((None, None)),
    }
}

impl RunArgs {
    /// Returns the live view if requested and possible; the reason why not is logged.
    fn view(&self, name: &str, log: StderrLog) -> Option<View> {
        let view = self.ui.then(|| View::of(name, log))?;
        match view {
            Ok(view) => Some(view),
            Err(reason) => {
                log.log(Level::Info, "sconce", &reason.message());
                None
            }
        }
    }
}

/// Where messages of this process go.
fn log<'run>(
    view: Option<&'run View>,
    directory: &Path,
    lines: StderrLog,
    is_first: bool,
) -> Box<dyn Log + 'run> {
    match view {
        Some(view) => Box::new(view.log(lines)),
        None if is_first => Box::new(lines),
        None => Box::new(RankLog::in_directory(directory, lines)),
    }
}

/// Runs the training, with the view on the terminal if there is one.
fn run_in<'run>(
    view: Option<&'run View>,
    ready: Ready<'run>,
    log: &dyn Log,
) -> (RunReport, Dispatcher) {
    allocator::keep_memory_for_steps();
    let Some(view) = view else {
        return ready.run_and_keep_hooks();
    };
    let ready = ready.with(|trainer| trainer.asked_by(view.remote()).watched_by(view.observer()));
    let drawing = view.begin();
    if let Err(error) = &drawing {
        let warning = format!("lines instead of the live view: {error}");
        log.log(Level::Warn, "sconce", &warning);
    }
    let ended = ready.run_and_keep_hooks();
    drop(drawing);
    ended
}

/// Starts to look for requests of `sconce reload`: to serve them or, for a run on several ranks, to refuse those in the run's
/// directory.
fn looks_for_libraries(
    reloads: Option<&RunReloads>,
    refused: Option<&Path>,
    log: &dyn Log,
) -> Option<ReloadWatch> {
    let watch = match (reloads, refused) {
        (Some(reloads), _) => reloads.watch(),
        (None, Some(directory)) => ReloadWatch::refuse(directory, session::reload::ON_RANKS),
        (None, None) => return None,
    };
    match watch {
        Ok(watch) => Some(watch),
        Err(error) => {
            let warning = format!("`sconce reload` can't reach this run: {error}");
            log.log(Level::Warn, "sconce", &warning);
            None
        }
    }
}

/// Temporary directory for a dry run; removed when the value is dropped.
fn passing_directory(look: &FirstLook) -> Result<Option<tempfile::TempDir>, StartFailure> {
    if !look.dry_run {
        return Ok(None);
    }
    let directory = tempfile::Builder::new().prefix("sconce-dry-run-").tempdir();
    directory.map(Some).map_err(|error| {
        let problem = format!("no directory for the dry run can be made: {error}");
        StartFailure::usage(vec![Diagnostic::new(problem)])
    })
}

/// Starts monitoring the run, so that crashes and hangs are reported.
fn watch(directory: &Path, prepared: &Prepared, team: Option<&Team>) -> Guard {
    let mut warnings = Vec::new();
    let rank = team.map_or(0, Team::rank);
    let suspects = (prepared.hooks().iter())
        .filter(|plan| plan.spec.ranks.has(rank))
        .map(HookPlan::suspect)
        .collect();
    let slow = prepared.manifest.limits.slow_call_limit();
    let who = team.map(|team| team.name_of(rank)).unwrap_or_default();
    let guard = faults::watch(directory, &who, suspects, slow, &mut warnings);
    let parameters = (prepared.task.parameters().iter())
        .map(|p| (p.name().to_owned(), p.tensor().clone()))
        .collect();
    guard.rescue(parameters);
    let shown: Vec<_> = warnings.into_iter().map(Diagnostic::warning).collect();
    output::diagnostics(&shown);
    guard
}

/// Saves what the run is made of, and reports faults of the previous run in this directory.
fn begin_record(
    run: &HeldDirectory,
    manifest: &Value,
    prepared: &Prepared,
) -> Result<(), StartFailure> {
    let directory = run.path();
    meeting::note_run(directory).map_err(|error| {
        let problem = format!("where the run is can't be noted for its launcher: {error}");
        StartFailure::usage(vec![Diagnostic::new(problem)])
    })?;
    record::begin(run, manifest, prepared)?;
    output::diagnostics(Vec::from_iter(faults::of_the_run_before(directory)).as_slice());
    Ok(())
}

/// Writes the run's weights, model and record; returns whether they were written.
fn write_results(
    store: &Store,
    report: &mut RunReport,
    prepared: &Prepared,
    origin: &Origin<'_>,
) -> bool {
    has_none(&record::write_results(store, report, prepared, origin))
}

/// Writes the run's record; returns whether it was written.
fn write_record(
    store: &Store,
    report: &RunReport,
    prepared: &Prepared,
    origin: &Origin<'_>,
) -> bool {
    has_none(&record::write_record(store, report, prepared, origin))
}

/// Prints problems; returns whether there are none.
fn has_none(problems: &[Diagnostic]) -> bool {
    output::diagnostics(problems);
    problems.is_empty()
}

/// What a run ran out of a GPU's memory with, if it did.
fn out_of_memory(
    report: &RunReport,
    prepared: &Prepared,
    tasks: &dyn TaskBuilder,
) -> Option<OutOfMemory> {
    match &report.outcome {
        RunOutcome::Failed(error) => {
            OutOfMemory::of(error, &prepared.manifest, prepared.task.as_ref(), tasks)
        }
        _ => None,
    }
}

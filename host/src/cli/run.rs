//! `sconce run`: trains what a manifest says.

use std::path::{Path, PathBuf};

use clap::Args;
use sconce_plugin_api::Phase;

use super::{ManifestArgs, hooks_table, output, prepare, record};
use crate::bridge::Shared;
use crate::diagnostic::Diagnostic;
use crate::dispatch::Dispatcher;
use crate::exit;
use crate::faults;
use crate::log::{Level, Log, StderrLog};
use crate::run::{Outcome, Profile, Report, RunError, Trainer};
use crate::session::{self, Checked, Failure, HookPlan, Selection, TaskBuilder};
use crate::task::Task;
use crate::weights;

/// The arguments of `sconce run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// The run's output directory, instead of the manifest's; relative to the current directory.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(arguments: &RunArgs, tasks: &dyn TaskBuilder) -> Result<u8, Failure> {
    Ok(conclude(&try_run(arguments, tasks)?))
}

fn try_run(arguments: &RunArgs, tasks: &dyn TaskBuilder) -> Result<Report, Failure> {
    let ManifestArgs { file, set, plugins } = &arguments.manifest;
    let checked = session::check(file, set, plugins, &arguments.selection, tasks.source())?;
    output::diagnostics(&checked.warnings);
    prepare::set_threads(checked.manifest.threads);
    let plan = checked.plan();
    let Checked {
        manifest,
        hooks,
        data,
        ..
    } = checked;
    let mut task = tasks.build(&manifest, data)?;
    if let Some(warning) = session::initial_weights(&manifest, task.as_ref())? {
        output::diagnostics(&[warning]);
    }
    session::check_references(&hooks, task.as_ref(), &manifest)?;
    let mut optimizer = session::optimizer(&manifest, task.parameters())?;
    let directory = prepare_directory(arguments.output.as_ref().unwrap_or(&manifest.output))?;
    output::diagnostics(Vec::from_iter(faults::of_the_run_before(&directory)).as_slice());
    save_manifest(&directory, &manifest.resolved())?;

    let mut warnings = Vec::new();
    let suspects = hooks.iter().map(HookPlan::suspect).collect();
    let slow = manifest.limits.slow_call_limit();
    // Until everything of the run is written.
    let guard = faults::watch(&directory, suspects, slow, &mut warnings);
    let parameters = task.parameters().iter();
    let parameters = parameters.map(|p| (p.name().to_owned(), p.tensor().clone()));
    guard.rescue(parameters.collect());
    let warnings: Vec<_> = warnings.into_iter().map(Diagnostic::warning).collect();
    output::diagnostics(&warnings);
    let log = StderrLog { level: Level::Info };
    let shared = Shared::new(&log).with_trail(guard.trail());
    let hooks = session::create_hooks(hooks, &manifest, &directory, &shared)?;
    announce(&log, &manifest.name, &directory, task.as_ref());
    log.log(Level::Info, "sconce", &hooks_table::text(&hooks));
    let hooks = Dispatcher::new(hooks);
    let report = Trainer::new(task.as_mut(), optimizer.as_mut(), hooks, &shared, plan)
        .in_directory(&manifest.name, &directory)
        .with_hook_share(manifest.limits.hook_share)
        .run();
    let warn = |problem: String| output::diagnostics(&[Diagnostic::warning(problem)]);
    if let Err(error) = record::write(&directory, &report) {
        warn(format!("the run's record can't be written: {error}"));
    }
    if !matches!(report.outcome, Outcome::Failed(_)) {
        let path = directory.join("weights.safetensors");
        if let Err(error) = weights::save(&path, task.parameters()) {
            warn(format!("the trained weights can't be written: {error}"));
        }
    }
    Ok(report)
}

fn prepare_directory(directory: &Path) -> Result<PathBuf, Failure> {
    fs_err::create_dir_all(directory)
        .and_then(|()| fs_err::canonicalize(directory))
        .map_err(|error| {
            let problem = format!("the output directory can't be made: {error}");
            Failure::usage(vec![Diagnostic::new(problem)])
        })
}

fn save_manifest(directory: &Path, manifest: &serde_json::Value) -> Result<(), Failure> {
    let text = format!("{manifest:#}\n");
    fs_err::write(directory.join("manifest.json"), text).map_err(|error| {
        let problem = format!("the run's manifest can't be saved: {error}");
        Failure::usage(vec![Diagnostic::new(problem)])
    })
}

fn announce(log: &dyn Log, name: &str, directory: &Path, task: &dyn Task) {
    let sizes: Vec<String> = [Phase::Train, Phase::Val, Phase::Test]
        .into_iter()
        .filter_map(|phase| Some(format!("{} {phase}", task.data(phase)?.len())))
        .collect();
    let text = format!(
        "run `{name}` in {}\n  {} parameters, samples: {}",
        directory.display(),
        task.parameters().element_count(),
        sizes.join(", ")
    );
    log.log(Level::Info, "sconce", &text);
}

/// Prints how the run ended; its exit code.
fn conclude(report: &Report) -> u8 {
    let mut problems = Vec::new();
    let code = match &report.outcome {
        Outcome::Completed => {
            output::line(&format!("completed: {}", amount(report)));
            exit::DONE
        }
        Outcome::Stopped { reason, hook } => {
            output::line(&format!(
                "stopped by `{hook}` ({reason}): {}",
                amount(report)
            ));
            exit::DONE
        }
        Outcome::Failed(error) => {
            problems.push(Diagnostic::new(error.to_string()));
            match error {
                RunError::Hook(_) => exit::HOOK,
                _ => exit::TRAINING,
            }
        }
    };
    for (phase, metrics) in &report.metrics {
        let (tables, plain): (Vec<_>, Vec<_>) =
            metrics.iter().partition(|(name, _)| name.contains('/'));
        let plain: Vec<String> = plain
            .iter()
            .map(|(name, value)| format!("{name} {value:.4}"))
            .collect();
        let rest = match tables.len() {
            0 => String::new(),
            count => format!(", and {count} numbers of tables in `run.json`"),
        };
        output::line(&format!("  {phase}: {}{rest}", plain.join(", ")));
    }
    for (phase, profile) in &report.profiles {
        output::line(&format!("  time in {phase}: {}", shares(profile)));
    }
    problems.extend(
        report
            .late_faults
            .iter()
            .map(|fault| Diagnostic::new(fault.to_string())),
    );
    output::diagnostics(&problems);
    if code == exit::DONE && !problems.is_empty() {
        return exit::HOOK;
    }
    code
}

/// Where the time went, in parts of a hundred.
fn shares(profile: &Profile) -> String {
    let hooks: f64 = profile.hooks.iter().map(|hook| hook.seconds).sum();
    let share = |seconds: f64| 100.0 * seconds / profile.total.max(f64::MIN_POSITIVE);
    format!(
        "{:.2} s: data {:.1} %, forward {:.1} %, loss {:.1} %, backward {:.1} %, update {:.1} %, \
         hooks {:.1} %",
        profile.total,
        share(profile.data),
        share(profile.forward),
        share(profile.loss),
        share(profile.backward),
        share(profile.update),
        share(hooks)
    )
}

fn amount(report: &Report) -> String {
    format!(
        "{} epochs, {} iterations, {} updates in {:.1} s",
        report.epochs, report.iterations, report.updates, report.seconds
    )
}

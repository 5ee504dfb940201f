//! `sconce run --folds N`: a run for each of N equal parts of the training data, which validates on that part and trains on
//! the others, and then the comparison of all.
//!
//! Each is a process of its own, `sconce run --folds N --fold I`, in a directory of its own. The first that fails ends the
//! series; `--resume` goes on with it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::checkpoint::{LATEST, Store};
use crate::cli::past_runs::compare::{CompareArgs, compare};
use crate::cli::past_runs::past_run::PastRun;
use crate::cli::resume::{self, ResumeArgs};
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use crate::team::Launch;

/// Options for folds.
#[derive(Debug, Default, Args)]
pub(super) struct FoldArgs {
    /// Trains N times, and validates each time on another of N equal parts of the training data (`data.val`); then
    /// compares the runs. They are in `fold-1`, `fold-2`, … of the output directory.
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    folds: Option<u32>,
    /// Of these runs only the one that validates on part I, from 1.
    #[arg(long, value_name = "I", requires = "folds")]
    fold: Option<u32>,
}

impl FoldArgs {
    /// The number of folds, if all of them are to be trained.
    pub(super) fn all(&self) -> Option<u32> {
        self.folds.filter(|_| self.fold.is_none())
    }

    /// Values that these options set in the manifest, after those of `--set`.
    ///
    /// # Errors
    ///
    /// Numbers out of range.
    pub(super) fn overrides(&self) -> Result<Option<String>, StartFailure> {
        let Some(folds) = self.folds else {
            return Ok(None);
        };
        let fold = self.fold.unwrap_or(1);
        let refused = |problem: String| Err(StartFailure::usage(vec![Diagnostic::new(problem)]));
        if folds < 2 {
            return refused(format!("`--folds` is {folds}: at least 2 are needed"));
        }
        if !(1..=folds).contains(&fold) {
            return refused(format!("`--fold` is {fold}: it is from 1 to {folds}"));
        }
        Ok(Some(format!(
            r#"data.val={{"fold": {fold}, "folds": {folds}}}"#
        )))
    }

    /// The run's directory, where `output` is that of all folds.
    pub(super) fn directory(&self, output: &Path) -> PathBuf {
        match self.fold {
            Some(fold) => directory(output, fold),
            None => output.to_owned(),
        }
    }

    /// Whether this run is a fold without a checkpoint: one of a series that goes on begins.
    pub(super) fn is_to_begin(&self, directory: &Path) -> bool {
        self.fold.is_some() && Store::of(directory).latest().is_none()
    }
}

fn directory(output: &Path, fold: u32) -> PathBuf {
    output.join(format!("fold-{fold}"))
}

/// Trains all folds in turn; returns the exit code of the first that failed. `manifest` is that of the first, with all
/// defaults.
pub(super) fn run_all(
    folds: u32,
    output: &Path,
    arguments: &ResumeArgs,
    manifest: &Value,
) -> Result<u8, StartFailure> {
    let resumes = arguments.resume.as_deref();
    let refused = |problem: Diagnostic| Err(StartFailure::usage(vec![problem]));
    if Launch::of_this_process().is_some_and(|launch| launch.size > 1) {
        return refused(
            Diagnostic::new("several processes together train one fold at a time")
                .hint("add `--fold 1`, then `--fold 2`, …; `sconce compare` has their mean"),
        );
    }
    if resumes.is_some_and(|tag| tag != LATEST) {
        return refused(
            Diagnostic::new("with `--folds`, `--resume` takes no checkpoint")
                .hint("`--resume` alone goes on with each fold from its last checkpoint"),
        );
    }
    output::lend();
    let processes = Processes::new();
    for fold in 1..=folds {
        let own = directory(output, fold);
        let title = format!("fold {fold} of {folds}, in {}", own.display());
        let ended = resumes.and_then(|_| PastRun::read(&own));
        if let Some(run) = ended.filter(PastRun::is_complete) {
            let mut manifest = manifest.clone();
            if let Some(number) = manifest.pointer_mut("/data/val/fold") {
                *number = fold.into();
            }
            if run.manifest != manifest {
                let problem = format!(
                    "the run in `{}` has ended, and was of another manifest",
                    own.display()
                );
                return refused(Diagnostic::new(problem).hint(
                    "`--overwrite` in place of `--resume` trains all folds again; `--output` keeps the others",
                ));
            }
            output::line(&format!("{title}: has ended"));
            continue;
        }
        output::line(&title);
        let code = processes.run(fold).map_err(|error| {
            let problem = format!("the process of fold {fold} can't be started: {error}");
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })?;
        if arguments.overwrite && fold == 1 && ![exit::USAGE, exit::PLUGIN].contains(&code) {
            // Of an earlier series: `--resume` would take them for folds of this one.
            for later in 2..=folds {
                drop(std::fs::remove_file(
                    directory(output, later).join("run.json"),
                ));
            }
        }
        if code != exit::DONE {
            output::line(&format!("go on with fold {fold} of {folds} and the rest:"));
            output::line(&format!("  {}", resume::command_for_all()));
            return Ok(code);
        }
    }
    let runs = (1..=folds).map(|fold| directory(output, fold));
    Ok(compare(&CompareArgs::of(runs.collect())))
}

/// The folds' processes, one at a time.
struct Processes {
    #[cfg(unix)]
    signals: crate::cli::process::passed_on::Signals,
}

#[cfg(unix)]
impl Processes {
    fn new() -> Processes {
        Processes {
            signals: crate::cli::process::passed_on::Signals::install(),
        }
    }

    /// Runs this command line for one fold to its end; returns the exit code. Signals are passed on, and end the series also
    /// where the fold had ended before it saw one.
    fn run(&self, fold: u32) -> std::io::Result<u8> {
        let mut child = command(fold)?
            .env(crate::launcher::PARENT, std::process::id().to_string())
            .spawn()?;
        let mut passed_on = None;
        loop {
            if let Some(status) = child.try_wait()? {
                let code = crate::cli::process::passed_on::code_of(status);
                let of_signal = passed_on.filter(|_| code == exit::DONE);
                return Ok(of_signal.unwrap_or(code));
            }
            for signal in self.signals.arrived() {
                crate::cli::process::passed_on::send(&child, signal);
                passed_on = u8::try_from(128 + signal.as_raw()).ok();
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How often a fold's process is looked at.
#[cfg(unix)]
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(not(unix))]
impl Processes {
    fn new() -> Processes {
        Processes {}
    }

    /// Runs this command line for one fold to its end; returns the exit code.
    fn run(&self, fold: u32) -> std::io::Result<u8> {
        let status = command(fold)?.status()?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.unwrap_or(u8::MAX))
    }
}

/// This process's command line, for one fold.
fn command(fold: u32) -> std::io::Result<std::process::Command> {
    let mut command = std::process::Command::new(crate::subprocess::executable()?);
    command
        .args(std::env::args_os().skip(1))
        .arg(format!("--fold={fold}"));
    Ok(command)
}

//! The processes of trials on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::plan::Sweep;
use super::results;
use super::rungs::Progress;
use crate::cli::process::passed_on::{self, Signals};
use crate::cli::show::{number, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::launcher;
use crate::session::StartFailure;
use sconce_base::nearest;

/// How often processes are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How often trials are looked at that other processes run.
const LOOK_AT_OTHERS: Duration = Duration::from_secs(1);

/// Number of times that a trial's process may be lost before it ends the sweep.
const MOST_LOST: u32 = 2;

/// A trial's process.
struct Running {
    trial: usize,
    rung: usize,
    child: Child,
    begin: Instant,
    /// Held while the trial is this process's.
    _claim: File,
}

/// Why no further trial is started.
enum End {
    /// A signal has arrived; its exit code.
    Signal(u8),
    /// Something is wrong that would be wrong again.
    Failure(StartFailure),
}

/// The trials that run here.
struct Workers<'a> {
    sweep: &'a Sweep,
    signals: Signals,
    running: Vec<Running>,
    /// How often each trial's process was lost.
    lost: BTreeMap<usize, u32>,
    /// Trials whose checkpoints are gone.
    cleared: BTreeSet<usize>,
    end: Option<End>,
}

/// Runs the trials of a sweep to its end; returns the exit code.
pub(super) fn run_all(sweep: &Sweep) -> Result<u8, StartFailure> {
    let workers = Workers::new(sweep);
    workers.run(|progress| progress.missing.clone())
}

/// Runs the trial with this number, from 1, as far as it is to go now.
pub(super) fn run_one(sweep: &Sweep, number: usize) -> Result<u8, StartFailure> {
    let trial = number.wrapping_sub(1);
    if trial >= sweep.trials.len() {
        let problem = format!(
            "there is no trial {number}: they are 1 to {}",
            sweep.trials.len()
        );
        return Err(StartFailure::usage(vec![Diagnostic::new(problem)]));
    }
    let due = sweep.progress().rung;
    let workers = Workers::new(sweep);
    workers.run(|progress| {
        let is_due = progress.rung == due && progress.missing.contains(&trial);
        is_due.then_some(trial).into_iter().collect()
    })
}

impl Workers<'_> {
    fn new(sweep: &Sweep) -> Workers<'_> {
        Workers {
            sweep,
            signals: Signals::install(),
            running: Vec::new(),
            lost: BTreeMap::new(),
            cleared: BTreeSet::new(),
            end: None,
        }
    }

    /// Runs trials until none of those that `due` names is left.
    fn run(mut self, due: impl Fn(&Progress) -> Vec<usize>) -> Result<u8, StartFailure> {
        let mut look = Instant::now();
        let mut has_changed = true;
        loop {
            self.pass_signals_on();
            has_changed |= self.reap();
            if has_changed || look.elapsed() >= LOOK_AT_OTHERS {
                look = Instant::now();
                let progress = self.sweep.progress();
                if has_changed {
                    self.clear_checkpoints(&progress);
                    self.write_results();
                }
                has_changed = false;
                let due = due(&progress);
                if due.is_empty() && self.running.is_empty() {
                    return self.ended();
                }
                self.start(&due, progress.rung);
            }
            if self.end.is_some() && self.running.is_empty() {
                return self.ended();
            }
            thread::sleep(LOOK);
        }
    }

    fn ended(self) -> Result<u8, StartFailure> {
        match self.end {
            None => Ok(exit::DONE),
            Some(End::Failure(failure)) => Err(failure),
            Some(End::Signal(code)) => {
                output::line("the trials have been paused: the same command goes on with them");
                Ok(code)
            }
        }
    }

    fn pass_signals_on(&mut self) {
        for signal in self.signals.arrived() {
            for one in &self.running {
                passed_on::send(&one.child, signal);
            }
            let code = u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX);
            self.end.get_or_insert(End::Signal(code));
        }
    }

    /// Starts trials that are due while there is room.
    fn start(&mut self, due: &[usize], rung: usize) {
        for &trial in due {
            let is_full = self.running.len() >= self.sweep.document.parallel;
            if is_full || self.end.is_some() {
                return;
            }
            if self.running.iter().any(|one| one.trial == trial) {
                continue;
            }
            match self.begin(trial, rung) {
                Ok(running) => self.running.extend(running),
                Err(error) => {
                    let problem = format!("trial {} can't be started: {error}", trial + 1);
                    self.fail(StartFailure::usage(vec![Diagnostic::new(problem)]));
                }
            }
        }
    }

    /// Starts a trial; `None` if another process has it, or it is already there.
    fn begin(&self, trial: usize, rung: usize) -> io::Result<Option<Running>> {
        let directory = self.sweep.directory(trial);
        let Some(claim) = directory.claim()? else {
            return Ok(None);
        };
        if self.sweep.reached(trial, rung).is_some() {
            return Ok(None);
        }
        if let Some(before) = rung.checked_sub(1) {
            directory.keep_record(before)?;
        }
        let log = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(directory.log())?;
        let mut command = self.sweep.command(trial, rung)?;
        command
            .env(launcher::PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stderr(log.file().try_clone()?)
            .stdout(log.into_file());
        Ok(Some(Running {
            trial,
            rung,
            child: command.spawn()?,
            begin: Instant::now(),
            _claim: claim,
        }))
    }

    /// Takes note of processes that have ended; whether there were any.
    fn reap(&mut self) -> bool {
        let mut ended = Vec::new();
        let mut index = 0;
        while let Some(one) = self.running.get_mut(index) {
            match one.child.try_wait() {
                Ok(None) => index += 1,
                Ok(Some(status)) => {
                    let code = passed_on::code_of(status);
                    ended.push((self.running.swap_remove(index), code));
                }
                Err(_) => ended.push((self.running.swap_remove(index), u8::MAX)),
            }
        }
        for (one, code) in &ended {
            self.tell(one, *code);
        }
        !ended.is_empty()
    }

    /// Tells how a trial's process has ended, and decides what that means.
    fn tell(&mut self, one: &Running, code: u8) {
        let (trial, metric) = (one.trial, &self.sweep.document.metric);
        let (title, log) = (
            format!("trial {}", trial + 1),
            self.sweep.directory(trial).log(),
        );
        let seconds = one.begin.elapsed().as_secs_f64();
        match self.sweep.reached(trial, one.rung) {
            Some(Some(value)) => {
                let value = number::shown(value, 5);
                let epochs = self.sweep.rungs.get(one.rung).and_then(|rung| rung.until);
                let at = epochs.map_or_else(String::new, |epochs| {
                    let plural = if epochs == 1 { "" } else { "s" };
                    format!(" after {epochs} epoch{plural}")
                });
                output::line(&format!("{title}: {metric} {value}{at} ({seconds:.1} s)"));
            }
            Some(None) if code == exit::DONE => self.fail(self.without_metric(trial)),
            Some(None) => output::line(&format!(
                "{title} failed ({seconds:.1} s): {}",
                log.display()
            )),
            // Paused with the others.
            None if self.end.is_some() => {}
            None if [exit::USAGE, exit::PLUGIN].contains(&code) => {
                let problem = format!("{title} can't be run: `{}` says why", log.display());
                let problem = last_error(&log)
                    .into_iter()
                    .fold(Diagnostic::new(problem), Diagnostic::note);
                if self.sweep.has_begun() {
                    self.sweep.leave_out(trial);
                    output::diagnostics(&[problem.into_warning()]);
                } else {
                    // What is wrong with the first is likely to be wrong with all.
                    self.fail(StartFailure {
                        code,
                        ..StartFailure::usage(vec![problem])
                    });
                }
            }
            None => {
                let times = self.lost.entry(trial).or_default();
                *times += 1;
                let text = format!(
                    "{title} was lost (exit code {code}): `{}` may say why",
                    log.display()
                );
                if *times < MOST_LOST {
                    output::diagnostics(&[
                        Diagnostic::warning(text).note("it goes on from its last checkpoint")
                    ]);
                } else {
                    let problem = Diagnostic::new(text).note(format!("it was lost {times} times"));
                    self.fail(StartFailure {
                        code,
                        ..StartFailure::usage(vec![problem])
                    });
                }
            }
        }
    }

    /// Ends the sweep for a reason: the trials that run are paused.
    fn fail(&mut self, failure: StartFailure) {
        if self.end.is_none() {
            for one in &self.running {
                passed_on::send(&one.child, Signal::TERM);
            }
            self.end = Some(End::Failure(failure));
        }
    }

    /// A trial that has ended well has no such metric.
    fn without_metric(&self, trial: usize) -> StartFailure {
        let metric = &self.sweep.document.metric;
        let record = self.sweep.directory(trial).record().unwrap_or_default();
        let known = super::trial_directory::metrics_of(&record);
        let problem = format!("trial {} has no number `{metric}`", trial + 1);
        let mut problem =
            Diagnostic::new(problem).note(format!("its metrics: {}", known.join(", ")));
        if let Some(near) = nearest::nearest(metric, known.iter().map(String::as_str)) {
            problem = problem.hint(format!("did you mean `{near}`?"));
        }
        StartFailure::usage(vec![problem])
    }

    /// Removes the checkpoints of trials that are left behind or have ended, but for the best.
    fn clear_checkpoints(&mut self, progress: &Progress) {
        let last = self.sweep.rungs.len() - 1;
        for (place, &trial) in progress
            .ranking
            .iter()
            .enumerate()
            .skip(self.sweep.document.keep)
        {
            let is_over = place >= progress.remaining || self.sweep.reached(trial, last).is_some();
            if !is_over
                || self.running.iter().any(|one| one.trial == trial)
                || !self.cleared.insert(trial)
            {
                continue;
            }
            if let Err(error) = self.sweep.directory(trial).remove_checkpoints() {
                let problem = format!(
                    "checkpoints of trial {} can't be removed: {error}",
                    trial + 1
                );
                output::diagnostics(&[Diagnostic::warning(problem)]);
            }
        }
    }

    fn write_results(&mut self) {
        if let Err(error) = results::write(self.sweep) {
            let problem = format!("the sweep's results can't be written: {error}");
            self.fail(StartFailure::results(vec![Diagnostic::new(problem)]));
        }
    }
}

/// The last error in a log.
fn last_error(log: &std::path::Path) -> Option<String> {
    let text = fs_err::read_to_string(log).ok()?;
    text.lines()
        .rev()
        .find(|line| line.starts_with("error: "))
        .map(str::to_owned)
}

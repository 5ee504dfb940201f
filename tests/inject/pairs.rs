//! All pairs of hooks, on all processors.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use sconce_tests::injection::hooks::{PLUGINS, keeping, manifest};
use sconce_tests::injection::{Cut, ENDS, End, Failing, Outcome, Point, Tally, Trial};
use serde_json::Value;

/// Error numbers and how calls fail with them.
const ERRORS: [(&str, i32, Failing); 2] = [
    ("input/output error", libc::EIO, Failing::Once),
    ("no space from here on", libc::ENOSPC, Failing::FullDisk),
];

/// What is tried.
pub(crate) struct Plan {
    every: usize,
    offset: usize,
    epochs: u32,
    errors: bool,
    /// Part of the points' names, or after a `!`, what is not part of them.
    at: Option<String>,
    hooks: Vec<String>,
}

/// Hooks of one run, by name.
type Hooks = Vec<(&'static str, Value)>;

impl Plan {
    /// Reads the command line.
    pub(crate) fn of(mut arguments: impl Iterator<Item = String>) -> Result<Plan, String> {
        let mut plan = Plan {
            every: 1,
            offset: 0,
            epochs: 4,
            errors: false,
            at: None,
            hooks: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            if argument == "--at" {
                let part = arguments.next();
                plan.at = Some(part.ok_or("--at needs a part of points' names")?);
                continue;
            }
            let mut number = || {
                let value = arguments
                    .next()
                    .and_then(|value| value.parse::<usize>().ok());
                value.ok_or(format!("{argument} needs a number"))
            };
            match argument.as_str() {
                "--every" => plan.every = number()?.max(1),
                "--offset" => plan.offset = number()?,
                "--epochs" => plan.epochs = number()?.max(1) as u32,
                "--errors" => plan.errors = true,
                name if keeping().iter().any(|(known, _)| *known == name) => {
                    plan.hooks.push(argument);
                }
                _ => {
                    let names: Vec<&str> = keeping().iter().map(|(name, _)| *name).collect();
                    return Err(format!(
                        "usage: inject [--every N] [--offset K] [--epochs N] [--errors] [--at TEXT] [HOOK …]\nhooks: {}",
                        names.join(", ")
                    ));
                }
            }
        }
        Ok(plan)
    }

    /// The pairs, or all named hooks together if there are more than two. Hooks whose checkpoints have no other reason to be
    /// there are joined by `checkpoint`, so that their runs can be resumed.
    fn pairs(&self) -> VecDeque<Hooks> {
        let all = keeping();
        if self.hooks.len() > 2 {
            let is_named = |name: &str| self.hooks.iter().any(|hook| hook == name);
            let named = all.into_iter().filter(|(name, _)| is_named(name));
            return [named.collect()].into();
        }
        let mut pairs = VecDeque::new();
        for (place, first) in all.iter().enumerate() {
            for second in all.iter().skip(place + 1) {
                let wanted = self
                    .hooks
                    .iter()
                    .all(|name| [first.0, second.0].contains(&name.as_str()));
                if wanted {
                    pairs.push_back(vec![first.clone(), second.clone()]);
                }
            }
        }
        pairs
    }

    /// Tries all pairs; prints a row for each. Returns whether nothing is wrong.
    pub(crate) fn all(&self) -> bool {
        let pairs = Mutex::new(self.pairs());
        let total = Mutex::new(Tally::default());
        let is_right = Mutex::new(true);
        println!(
            "| hooks | points | same | of them from the beginning | other files, with a warning | other weights, with a warning | other weights | otherwise wrong |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        let work = || {
            while let Some(hooks) = next(&pairs) {
                let names: Vec<&str> = hooks.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                let entries: Vec<Value> = with_checkpoints(hooks);
                // It deletes its checkpoint of the run's start once the test is over.
                let forgets = names.contains("lr-range-test");
                match self.one(&manifest(&entries, self.epochs), forgets) {
                    Ok((tally, wrong)) => {
                        println!("{}", row(&names, &tally));
                        for line in &wrong {
                            println!("  {names}: {line}");
                        }
                        locked(&total, |total| *total += tally);
                        locked(&is_right, |is_right| *is_right &= wrong.is_empty());
                    }
                    Err(error) => {
                        println!("  {names}: {error}");
                        locked(&is_right, |is_right| *is_right = false);
                    }
                }
            }
        };
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(work);
            }
        });
        locked(&total, |total| println!("{}", row("all", total)));
        locked(&is_right, |is_right| *is_right)
    }

    /// Tries one run; returns counts, and a line for each point at which something is wrong.
    /// `forgets`: a hook deletes a checkpoint when it is done, so that a run that could be resumed has to start over.
    fn one(&self, manifest: &Value, forgets: bool) -> io::Result<(Tally, Vec<String>)> {
        let (mut trial, recording) = Trial::new(&PLUGINS, manifest)?;
        let mut tally = Tally::default();
        let mut wrong = Vec::new();
        let mut note = |what: &str, point: &Point, outcome: &Outcome| {
            let is_right = if self.errors {
                outcome.is_right_after_error()
            } else {
                outcome.is_right()
            };
            tally.add(outcome, is_right);
            if !is_right {
                wrong.push(format!("{what} before {point}: {outcome}"));
            }
        };
        let is_at = |cut: &&Cut| {
            let name = cut.point.to_string();
            match self.at.as_deref().map(|at| (at, at.strip_prefix('!'))) {
                None => true,
                Some((at, None)) => name.contains(at),
                Some((_, Some(other))) => !name.contains(other),
            }
        };
        let cuts = recording.cuts.iter().filter(is_at);
        let cuts = cuts.skip(self.offset).step_by(self.every);
        if self.errors {
            for cut in cuts {
                for (what, number, failing) in ERRORS {
                    let outcome = trial.with_error(&cut.point, number, failing)?;
                    if let Some(outcome) = outcome {
                        note(what, &cut.point, &outcome);
                    }
                }
            }
            return Ok((tally, wrong));
        }
        for end in ENDS {
            let what = match end {
                End::Killed => "killed",
                End::LeastLeft => "power lost, only what was synced left,",
                End::NamesLeft => "power lost, names left,",
            };
            let mut could_be_resumed = false;
            for cut in cuts.clone() {
                let outcome = trial.after(cut, end)?;
                let outcome = match outcome {
                    Outcome::StartedOver if could_be_resumed && !forgets => {
                        Outcome::Lost("an earlier cut could be resumed".to_owned())
                    }
                    outcome => outcome,
                };
                could_be_resumed |= outcome == Outcome::Same;
                note(what, &cut.point, &outcome);
            }
        }
        Ok((tally, wrong))
    }
}

/// The hooks' entries, and a hook that saves checkpoints if none of them does.
fn with_checkpoints(hooks: Hooks) -> Vec<Value> {
    let saves = |name: &str| ["checkpoint", "background"].contains(&name);
    let has_one = hooks.iter().any(|(name, _)| saves(name));
    let added = keeping()
        .into_iter()
        .find(|(name, _)| !has_one && saves(name));
    let entries = added.into_iter().chain(hooks);
    entries.map(|(_, entry)| entry).collect()
}

fn next(pairs: &Mutex<VecDeque<Hooks>>) -> Option<Hooks> {
    locked(pairs, VecDeque::pop_front)
}

/// What others did before they panicked is printed by then.
fn locked<T, R>(mutex: &Mutex<T>, act: impl FnOnce(&mut T) -> R) -> R {
    act(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

fn row(names: &str, tally: &Tally) -> String {
    format!(
        "| {names} | {} | {} | {} | {} | {} | {} | {} |",
        tally.points,
        tally.same,
        tally.started_over,
        tally.other_files_said,
        tally.warned,
        tally.other_weights,
        tally.otherwise_wrong
    )
}

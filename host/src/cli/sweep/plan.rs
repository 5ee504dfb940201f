//! A sweep with its trials.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use sconce_plugin_api::Rule;
use serde::{Deserialize, Serialize};

use super::document::SweepDocument;
use super::rungs::{self, Progress, Reached, Rung};
use super::space::{self, Trial};
use super::trial_directory::TrialDirectory;
use crate::diagnostic::Diagnostic;
use crate::manifest::{self, Overlay, TaskSource};
use crate::session::StartFailure;
use sconce_base::files::write_atomically;

/// Number of trials whose manifests' problems are told.
const MOST_TOLD: usize = 3;

/// A sweep.
pub(super) struct Sweep {
    pub(super) document: SweepDocument,
    /// The file that describes it.
    pub(super) file: PathBuf,
    pub(super) plugins: Vec<PathBuf>,
    /// Its directory.
    pub(super) output: PathBuf,
    pub(super) trials: Vec<Trial>,
    pub(super) rungs: Vec<Rung>,
    pub(super) goal: Rule,
    /// Name of the manifest's run.
    name: String,
    /// Compute threads of each trial, if the manifest does not say.
    threads: Option<usize>,
    /// What trials have reached, by trial and rung; it never changes.
    reached: RefCell<HashMap<(usize, usize), Reached>>,
    /// Trials that can't be run, as this process has seen.
    impossible: RefCell<BTreeSet<usize>>,
}

/// What a sweep keeps from its first start.
#[derive(Serialize, Deserialize)]
struct Kept {
    threads: Option<usize>,
}

impl Sweep {
    /// Reads a sweep's file, draws its trials, checks their manifests, and makes its directory.
    pub(super) fn open(
        file: &Path,
        plugins: &[PathBuf],
        source: TaskSource,
    ) -> Result<Sweep, StartFailure> {
        let document = read(file).map_err(StartFailure::usage)?;
        let trials = space::trials(&document);
        let manifest = check_manifests(&document, &trials, source)?;
        let output = document.output.clone();
        let refused = |problem: Diagnostic| StartFailure::usage(vec![problem]);
        make(&output).map_err(refused)?;
        keep_trials(&output, &trials).map_err(refused)?;
        let threads = match manifest.threads {
            Some(_) => None,
            None => Some(keep_threads(&output, &document).map_err(refused)?),
        };
        Ok(Sweep {
            rungs: rungs::rungs(document.halving, trials.len(), manifest.train.epochs),
            goal: document.goal().unwrap_or(Rule::Less),
            name: manifest.name,
            file: file.to_owned(),
            plugins: plugins.to_vec(),
            output,
            trials,
            threads,
            document,
            reached: RefCell::default(),
            impossible: RefCell::default(),
        })
    }

    /// A trial on disk.
    pub(super) fn directory(&self, trial: usize) -> TrialDirectory {
        TrialDirectory::of(&self.output, trial + 1)
    }

    /// Where the sweep stands.
    pub(super) fn progress(&self) -> Progress {
        rungs::progress(&self.rungs, self.goal, |trial, rung| {
            self.reached(trial, rung)
        })
    }

    /// What a trial has reached at a rung.
    pub(super) fn reached(&self, trial: usize, rung: usize) -> Option<Reached> {
        if let Some(known) = self.reached.borrow().get(&(trial, rung)) {
            return Some(*known);
        }
        let until = self.rungs.get(rung)?.until;
        let found = self
            .directory(trial)
            .reached(rung, until, &self.document.metric);
        let Some(found) = found else {
            return self.impossible.borrow().contains(&trial).then_some(None);
        };
        self.reached.borrow_mut().insert((trial, rung), found);
        Some(found)
    }

    /// Takes a trial out of the sweep, which can't be run.
    pub(super) fn leave_out(&self, trial: usize) {
        self.impossible.borrow_mut().insert(trial);
    }

    /// Whether any trial has reached the first rung.
    pub(super) fn has_begun(&self) -> bool {
        let reached = self.reached.borrow();
        reached.values().any(Option::is_some)
    }

    /// The process that takes a trial to a rung.
    pub(super) fn command(&self, trial: usize, rung: usize) -> std::io::Result<Command> {
        let mut command = crate::subprocess::command()?;
        command.arg("run").arg(&self.document.run);
        let number = trial + 1;
        let mut set = self
            .trials
            .get(trial)
            .map(Trial::assignments)
            .unwrap_or_default();
        set.push(format!(
            "name={}",
            serde_json::json!(format!("{}-{number}", self.name))
        ));
        set.extend(self.threads.map(|threads| format!("threads={threads}")));
        for assignment in set {
            command.arg("--set").arg(assignment);
        }
        for directory in &self.plugins {
            command.arg("--plugins").arg(directory);
        }
        command.arg("--output").arg(self.directory(trial).path);
        command.arg("--resume-if-exists");
        if let Some(until) = self.rungs.get(rung).and_then(|rung| rung.until) {
            command.arg("--until").arg(until.to_string());
        }
        Ok(command)
    }
}

/// Reads a sweep's file without problems.
fn read(file: &Path) -> Result<SweepDocument, Vec<Diagnostic>> {
    let (document, source) = SweepDocument::read(file)?;
    let problems = document
        .problems()
        .into_iter()
        .chain(space::problems(&document));
    let told: Vec<Diagnostic> = problems
        .map(|(path, problem)| Diagnostic::new(problem).at(source.location(&path)))
        .collect();
    if told.is_empty() {
        Ok(document)
    } else {
        Err(told)
    }
}

/// Reads the manifest of every trial; returns the first one's.
fn check_manifests(
    document: &SweepDocument,
    trials: &[Trial],
    source: TaskSource,
) -> Result<manifest::Manifest, StartFailure> {
    let mut first = None;
    let mut problems = Vec::new();
    let mut wrong = 0_usize;
    for trial in trials {
        let overlay = Overlay::new(&[], &trial.assignments());
        match manifest::load(&document.run, &overlay, source) {
            Ok(manifest) => {
                first.get_or_insert(manifest);
            }
            Err(found) => {
                wrong += 1;
                let note = format!(
                    "in trial {}: {}",
                    trial.trial,
                    trial.assignments().join(", ")
                );
                if wrong <= MOST_TOLD {
                    problems.extend(found.into_iter().map(|problem| problem.note(note.clone())));
                }
            }
        }
    }
    if wrong > MOST_TOLD {
        let more = wrong - MOST_TOLD;
        problems.push(Diagnostic::new(format!(
            "the manifests of {more} more trials are wrong"
        )));
    }
    first
        .filter(|_| problems.is_empty())
        .ok_or_else(|| StartFailure::usage(problems))
}

fn make(output: &Path) -> Result<(), Diagnostic> {
    fs_err::create_dir_all(output.join("logs"))
        .map_err(|error| Diagnostic::new(format!("the sweep's directory can't be made: {error}")))
}

/// Writes down the trials, or compares them with those of an earlier start, which may have been fewer.
fn keep_trials(output: &Path, trials: &[Trial]) -> Result<(), Diagnostic> {
    let path = output.join("trials.jsonl");
    let mut text = String::new();
    for trial in trials {
        text.push_str(&serde_json::json!(trial).to_string());
        text.push('\n');
    }
    let known = fs_err::read_to_string(&path).unwrap_or_default();
    let mut lines = text.lines();
    for line in known.lines() {
        let now = lines.next();
        if now != Some(line) {
            let problem = format!("`{}` has trials of another sweep", output.display());
            let now = now.map_or_else(
                || "none of this number".to_owned(),
                crate::diagnostic::shortened,
            );
            return Err(Diagnostic::new(problem)
                .note(format!("there: {}", crate::diagnostic::shortened(line)))
                .note(format!("now: {now}"))
                .hint("give another `output`; to a sweep that has begun, trials and values can be added, and none changed"));
        }
    }
    write_atomically(&path, text.as_bytes())
        .map_err(|error| Diagnostic::new(format!("the trials can't be written down: {error}")))
}

/// The number of threads of each trial: that of the first start, on whatever machine.
fn keep_threads(output: &Path, document: &SweepDocument) -> Result<usize, Diagnostic> {
    let path = output.join("sweep.json");
    let known = fs_err::read(&path).ok();
    let known = known.and_then(|text| serde_json::from_slice::<Kept>(&text).ok()?.threads);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match (document.threads, known) {
        (Some(threads), Some(known)) if threads != known => {
            let problem =
                format!("the trials have {known} threads each, and `threads` is {threads}");
            return Err(Diagnostic::new(problem).hint(
                "give another `output`: the bits of results depend on the number of threads",
            ));
        }
        (Some(threads), _) => threads,
        (None, Some(known)) => known,
        (None, None) => (processors / document.parallel).max(1),
    };
    let kept = serde_json::json!(Kept {
        threads: Some(threads)
    });
    write_atomically(&path, format!("{kept:#}\n").as_bytes())
        .map_err(|error| Diagnostic::new(format!("the sweep can't be written down: {error}")))?;
    Ok(threads)
}

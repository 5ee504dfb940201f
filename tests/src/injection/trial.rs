//! Disturbed runs, continued as a user would, and compared with an undisturbed one.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::call::Point;
use super::outcome::Outcome;
use super::record::{Cut, Recording, record, run_failing};
use super::tables::{Tables, shape};
use super::tree::Tree;
use crate::{Finished, Workplace};

/// What ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A kill.
    Killed,
    /// A power failure, of which only what was made durable is left.
    LeastLeft,
    /// A power failure after which all names are there, and of files the bytes that were made durable.
    NamesLeft,
}

/// All of them.
pub const ENDS: [End; 3] = [End::Killed, End::LeastLeft, End::NamesLeft];

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// One call, as on a faulty disk.
    Once,
    /// It and all further ones that need space, as on a full disk.
    FullDisk,
}

/// A run's manifest, what an undisturbed run leaves, and a place for disturbed ones.
pub struct Trial {
    place: Workplace,
    expected: Tables,
    twin: Tables,
    /// Warnings of an undisturbed run, without numbers.
    warnings: BTreeSet<Vec<u8>>,
    /// Outcomes by what the directory was when the run was continued.
    known: HashMap<Vec<u8>, Outcome>,
}

impl Trial {
    /// Runs a manifest, whose output directory is `out`, twice undisturbed, the second time recorded.
    ///
    /// # Errors
    ///
    /// If a run fails, or can't be recorded.
    pub fn new(plugins: &[&str], manifest: &Value) -> io::Result<(Trial, Recording)> {
        let place = Workplace::new(plugins);
        let done = |finished: &Finished| match finished.code {
            0 => Ok(()),
            _ => Err(io::Error::other(finished.stderr.clone())),
        };
        done(&place.run(manifest))?;
        let twin = Tables::of(&place.path("out"))?;
        let mut trial = Trial {
            expected: Tables::of(&place.path("out"))?,
            twin,
            warnings: BTreeSet::new(),
            place,
            known: HashMap::new(),
        };
        trial.empty()?;
        let command = trial.place.command(&["run", "manifest.json"]);
        let recording = record(command, &trial.out()?)?;
        done(&recording.finished)?;
        trial.warnings = warnings(&recording.finished);
        trial.expected = Tables::of(&trial.out()?)?;
        let difference = trial.expected.compare(&trial.twin, &trial.twin);
        if difference.weights {
            return Err(io::Error::other("two undisturbed runs differ"));
        }
        Ok((trial, recording))
    }

    /// The output directory's path.
    fn out(&self) -> io::Result<PathBuf> {
        self.place.path("out").canonicalize()
    }

    fn empty(&self) -> io::Result<()> {
        let out = self.place.path("out");
        match fs::remove_dir_all(&out) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(out)
    }

    /// Continues a run that ended at a cut.
    ///
    /// # Errors
    ///
    /// If the directory can't be made or read.
    pub fn after(&mut self, cut: &Cut, end: End) -> io::Result<Outcome> {
        let left = match end {
            End::Killed => &cut.killed,
            End::LeastLeft => &cut.least,
            End::NamesLeft => &cut.names,
        };
        self.continued(left)
    }

    fn continued(&mut self, left: &Tree) -> io::Result<Outcome> {
        let digest = left.digest();
        if let Some(known) = self.known.get(&digest) {
            return Ok(known.clone());
        }
        self.empty()?;
        left.make(&self.place.path("out"))?;
        let outcome = self.to_the_end()?;
        self.known.insert(digest, outcome.clone());
        Ok(outcome)
    }

    /// Resumes what is in the output directory, or starts over if that is refused.
    fn to_the_end(&self) -> io::Result<Outcome> {
        let resumed = self.place.sconce(&["run", "manifest.json", "--resume"]);
        match resumed.code {
            // Warnings of a resumed run, as of a checkpoint that was passed over, excuse nothing but one: that it begins with a
            // state of the middle of something, since there was no other.
            0 => return self.judge(resumed.stderr.contains(INEXACT)),
            2 if says_what_to_do(&resumed) => {}
            // It can fail again, and has said what else there is.
            4 | 7 if resumed.stderr.contains(INEXACT) => {}
            _ => return Ok(failed("the resumed run", &resumed)),
        }
        let again = self.place.sconce(&["run", "manifest.json", "--overwrite"]);
        if again.code != 0 {
            return Ok(failed("the run from the beginning", &again));
        }
        Ok(match self.judge(false)? {
            Outcome::Same => Outcome::StartedOver,
            other => other,
        })
    }

    /// Compares what is in the output directory.
    fn judge(&self, has_warned: bool) -> io::Result<Outcome> {
        let found = Tables::of(&self.place.path("out"))?;
        let difference = self.expected.compare(&self.twin, &found);
        Ok(Outcome::of(&difference, has_warned))
    }

    /// Runs from the beginning with calls that fail from a point on, and continues it if it fails.
    ///
    /// # Errors
    ///
    /// If the directory can't be made or read.
    pub fn with_error(
        &mut self,
        point: &Point,
        number: i32,
        failing: Failing,
    ) -> io::Result<Option<Outcome>> {
        self.empty()?;
        let mut has_begun = false;
        let fate = |next: &Point| {
            let is_here = next == point;
            has_begun |= is_here;
            let needs_space = !matches!(next.call, "unlink" | "fsync" | "ftruncate");
            let fails = is_here || failing == Failing::FullDisk && has_begun && needs_space;
            fails.then_some(number)
        };
        let command = self.place.command(&["run", "manifest.json"]);
        let finished = run_failing(command, &self.out()?, fate)?;
        if !has_begun {
            return Ok(None);
        }
        let outcome = match finished.code {
            0 => self.judge(!warnings(&finished).is_subset(&self.warnings))?,
            // With 2, before anything was trained.
            2 | 4 | 7 => self.to_the_end()?,
            _ => failed("the run", &finished),
        };
        Ok(Some(outcome))
    }
}

/// What was found after a run whose directory was replaced.
#[derive(Debug)]
pub struct Replaced {
    /// How the run ended.
    pub finished: Finished,
    /// Everything in the run's own directory.
    pub moved: Vec<String>,
    /// Everything in the directory that the link leads to.
    pub elsewhere: Vec<String>,
}

impl Trial {
    /// Runs from the beginning. Before the call at a point the output directory is renamed, and a link to another
    /// directory takes its place, in which every name is that a run's files are written to. None if the run has no such
    /// call.
    ///
    /// # Errors
    ///
    /// If the directories can't be made or read.
    pub fn with_link(&mut self, point: &Point) -> io::Result<Option<Replaced>> {
        let (moved, elsewhere) = (self.place.path("moved"), self.place.path("elsewhere"));
        let out = self.place.path("out");
        if out.is_symlink() {
            fs::remove_file(&out)?;
        }
        for directory in [&moved, &elsewhere] {
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.empty()?;
        for directory in ["checkpoints/epoch-1", "model"] {
            fs::create_dir_all(elsewhere.join(directory))?;
        }
        let mut problem = None;
        let mut has_begun = false;
        let fate = |next: &Point| {
            if next == point && !has_begun {
                has_begun = true;
                let replaced = fs::rename(&out, &moved);
                let replaced = replaced.and_then(|()| std::os::unix::fs::symlink(&elsewhere, &out));
                problem = replaced.err();
            }
            None
        };
        let command = self.place.command(&["run", "manifest.json"]);
        let finished = run_failing(command, &self.out()?, fate)?;
        problem.map_or(Ok(()), Err)?;
        if !has_begun {
            return Ok(None);
        }
        Ok(Some(Replaced {
            finished,
            moved: list(&moved)?,
            elsewhere: list(&elsewhere)?,
        }))
    }
}

/// Lists everything in a directory.
fn list(directory: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let inner = list(&entry.path())?;
            found.extend(inner.iter().map(|inner| format!("{name}/{inner}")));
        }
        found.push(name);
    }
    found.sort();
    Ok(found)
}

/// What a run says that resumes from a checkpoint that is not exact.
const INEXACT: &str = "was saved when an error interrupted";

/// Whether a refusal says how to go on.
fn says_what_to_do(refused: &Finished) -> bool {
    ["--resume", "--overwrite", "--output", "--allow-changes"]
        .iter()
        .any(|way| refused.stderr.contains(way))
}

fn failed(what: &str, finished: &Finished) -> Outcome {
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let errors = lines.iter().position(|line| line.starts_with("error"));
    let shown = lines.get(errors.unwrap_or_default()..).unwrap_or_default();
    let shown: Vec<&str> = shown.iter().take(4).map(|line| line.trim()).collect();
    Outcome::Failed(format!(
        "{what} ended with code {}: {}",
        finished.code,
        shown.join(" / ")
    ))
}

/// Warnings without numbers, which may be times.
fn warnings(finished: &Finished) -> BTreeSet<Vec<u8>> {
    let lines = finished.stderr.lines();
    let warnings = lines.filter(|line| line.starts_with("warning"));
    warnings.map(|line| shape(line.as_bytes())).collect()
}

//! A run whose changes of its directory are stopped one by one: recorded, or made to fail.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use super::call::{Call, Point, Points};
use super::listener::Listener;
use super::synced::Synced;
use super::tree::{Read, Tree};
use crate::Finished;

/// A place in a run, and what is left of the run's directory if it ends there.
pub struct Cut {
    /// The call that isn't made any more.
    pub point: Point,
    /// If the process is killed.
    pub(super) killed: Tree,
    /// If the power fails: at least.
    pub(super) least: Tree,
    /// If the power fails, on a file system that orders names.
    pub(super) names: Tree,
}

/// A run from its beginning to its end.
pub struct Recording {
    /// One for each call.
    pub cuts: Vec<Cut>,
    /// How it ended.
    pub finished: Finished,
}

/// Runs a command that works in `directory` (absolute, without links), which exists, and records it.
///
/// # Errors
///
/// If calls can't be stopped, or the directory not be read.
pub fn record(command: Command, directory: &Path) -> io::Result<Recording> {
    let mut synced = Synced::new(directory)?;
    let mut read = Read::default();
    let mut points = Points::default();
    let mut cuts = Vec::new();
    let finished = supervise(command, directory, |call| {
        let killed = Tree::of(directory, &mut read)?;
        cuts.push(Cut {
            point: points.next(call),
            least: synced.least(),
            names: synced.names_of(&killed),
            killed,
        });
        if let Some(path) = &call.synced {
            synced.add(path, &mut read)?;
        }
        Ok(None)
    })?;
    Ok(Recording { cuts, finished })
}

/// Runs a command that works in `directory`; `fate` says with which error number a call fails, if it does.
///
/// # Errors
///
/// If calls can't be stopped, or `fate` fails.
pub(super) fn run_failing(
    command: Command,
    directory: &Path,
    mut fate: impl FnMut(&Point) -> Option<i32>,
) -> io::Result<Finished> {
    let mut points = Points::default();
    supervise(command, directory, |call| Ok(fate(&points.next(call))))
}

/// Runs a command; `decide` is asked before each call that changes something in `directory`, and may return the error
/// number with which it fails.
fn supervise(
    mut command: Command,
    directory: &Path,
    mut decide: impl FnMut(&Call) -> io::Result<Option<i32>>,
) -> io::Result<Finished> {
    let directory: PathBuf = directory.canonicalize()?;
    let (sender, receiver) = mpsc::channel();
    let run = std::thread::spawn(move || {
        let listener = Listener::install();
        let is_installed = listener.is_ok();
        // The other end waits for it.
        drop(sender.send(listener));
        if !is_installed {
            return Err(io::Error::other("calls can't be stopped"));
        }
        command.output()
    });
    let listener = receiver.recv().map_err(io::Error::other)??;
    let mut trouble = None;
    loop {
        let Some(stopped) = listener.next(Duration::from_millis(20))? else {
            if run.is_finished() {
                break;
            }
            continue;
        };
        let call = Call::of(&stopped, &directory);
        let decided = call.map_or(Ok(None), |call| decide(&call));
        let error = decided.unwrap_or_else(|error| {
            trouble.get_or_insert(error);
            None
        });
        listener.answer(&stopped, error)?;
    }
    let output = run
        .join()
        .map_err(|_| io::Error::other("the thread panicked"))??;
    trouble.map_or_else(|| Ok(Finished::from(output)), Err)
}

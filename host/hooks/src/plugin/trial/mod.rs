//! Trial loads: a library is opened in a child process before it is opened in this one.
//!
//! Opening runs a library's constructors, and a crash, hang or exit there affects the whole process. The
//! child is this program's own executable with the hidden subcommand `trial-load`; it reports completion on a
//! separate pipe, because an exit code of 0 proves nothing: a constructor may have called `exit(0)`.
//!
//! All libraries are tried in one child; only if that fails does each get its own. Results are remembered by
//! fingerprint for the lifetime of this process.

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod parent;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::trial_fault::Fault;

/// The hidden subcommand.
pub const COMMAND: &str = "trial-load";

/// Whether this program's executable knows the hidden subcommand.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Results of earlier trials, by the fingerprints of the files.
static VERDICTS: Mutex<BTreeMap<String, Result<(), Fault>>> = Mutex::new(BTreeMap::new());

/// A library to try.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// SHA-256 of the library.
    pub sha256: String,
    /// The file to open.
    pub file: PathBuf,
}

/// Results of the trials of some libraries.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The failed ones, by their fingerprints.
    pub faults: BTreeMap<String, Fault>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Enables trial loads. A program that calls this must call [`answer`] when it is started with the hidden
/// subcommand.
pub fn enable() {
    ANSWERS.store(true, Ordering::Relaxed);
}

/// The hidden subcommand: opens these libraries, reports on them, and ends the process.
#[cfg(target_os = "linux")]
pub fn answer(libraries: &[PathBuf]) -> u8 {
    child::answer(libraries)
}

/// The hidden subcommand, which is not supported on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn answer(_libraries: &[PathBuf]) -> u8 {
    crate::exit::USAGE
}

/// Tries libraries that have not been tried yet.
///
/// Does nothing in a program whose executable doesn't have the hidden subcommand.
pub fn of(candidates: &[Candidate], limit: Duration) -> Verdicts {
    let mut verdicts = Verdicts::default();
    if !ANSWERS.load(Ordering::Relaxed) {
        return verdicts;
    }
    let mut known = match VERDICTS.lock() {
        Ok(known) => known,
        Err(poisoned) => poisoned.into_inner(),
    };
    let mut fresh: Vec<&Candidate> = Vec::new();
    for candidate in candidates {
        let is_listed = fresh.iter().any(|other| other.sha256 == candidate.sha256);
        if !known.contains_key(&candidate.sha256) && !is_listed {
            fresh.push(candidate);
        }
    }
    match try_all(&fresh, limit, &mut verdicts.warnings) {
        Ok(tried) => known.extend(tried),
        Err(error) => {
            let error = error.to_string();
            let hint = sconce_base::files::open_limit_hint(&error);
            verdicts.warnings.push(format!(
                "plugins are opened without a trial load in another process, which can't be \
                 started: {error}{}",
                hint.map_or_else(String::new, |hint| format!("; {hint}"))
            ));
        }
    }
    for candidate in candidates {
        if let Some(Err(fault)) = known.get(&candidate.sha256) {
            verdicts
                .faults
                .insert(candidate.sha256.clone(), fault.clone());
        }
    }
    verdicts
}

type Tried = Vec<(String, Result<(), Fault>)>;

/// Tries libraries together, and each one separately if that fails.
#[cfg(target_os = "linux")]
fn try_all(
    fresh: &[&Candidate],
    limit: Duration,
    warnings: &mut Vec<String>,
) -> std::io::Result<Tried> {
    if fresh.is_empty() {
        return Ok(Vec::new());
    }
    let together = try_once(fresh, limit)?;
    let Err(fault) = &together.result else {
        warnings.extend(together.warning(fresh));
        return Ok(all(fresh, &Ok(())));
    };
    if fresh.len() == 1 {
        return Ok(all(fresh, &together.result));
    }
    let mut tried = Vec::new();
    for &candidate in fresh {
        let alone = try_once(&[candidate], limit)?;
        warnings.extend(alone.warning(&[candidate]));
        tried.push((candidate.sha256.clone(), alone.result));
    }
    if tried.iter().all(|(_, result)| result.is_ok()) {
        // Harmless separately but not together: none of them can be trusted in a run.
        return Ok(all(fresh, &Err(fault.clone())));
    }
    Ok(tried)
}

/// Tries libraries in one child; in another if that was killed from outside.
#[cfg(target_os = "linux")]
fn try_once(libraries: &[&Candidate], limit: Duration) -> std::io::Result<parent::TrialOutcome> {
    let outcome = parent::run(libraries, limit)?;
    match &outcome.result {
        Err(fault) if fault.is_from_outside() => parent::run(libraries, limit),
        _ => Ok(outcome),
    }
}

#[cfg(not(target_os = "linux"))]
fn try_all(_: &[&Candidate], _: Duration, _: &mut Vec<String>) -> std::io::Result<Tried> {
    Err(std::io::Error::other("Sconce does so on Linux alone"))
}

#[cfg(target_os = "linux")]
fn all(candidates: &[&Candidate], result: &Result<(), Fault>) -> Tried {
    let each = candidates.iter();
    each.map(|candidate| (candidate.sha256.clone(), result.clone()))
        .collect()
}

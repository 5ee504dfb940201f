//! Arguments that individual mount points have in addition to the view.

use std::path::Path;
use std::slice;
use std::time::Duration;

use crate::CheckpointRef;
use crate::abi::{CheckpointAbi, FailureAbi, OutcomeAbi, ProfileAbi, TextAbi};

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<'task> {
    /// All epochs were trained.
    Completed,
    /// A hook or the user requested a stop.
    Stopped {
        /// The reason given with the request.
        reason: &'task str,
    },
    /// A signal ended the run; a checkpoint was saved from which it can be resumed.
    Interrupted {
        /// Name of the signal, such as `SIGINT`.
        signal: &'task str,
    },
    /// An error ended the run.
    Failed {
        /// The complete error message.
        error: &'task str,
    },
}

impl<'task> Outcome<'task> {
    /// Reads the payload of `after_run`.
    ///
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task OutcomeAbi) -> Self {
        // SAFETY: the caller guarantees that the texts live for `'task`.
        let text = unsafe { read(payload.reason) };
        match payload.kind {
            0 => Outcome::Completed,
            1 => Outcome::Stopped { reason: text },
            3 => Outcome::Interrupted { signal: text },
            _ => Outcome::Failed { error: text },
        }
    }
}

/// The error that ends the run, at `on_exception`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure<'task> {
    /// The part of the run that failed.
    pub origin: Origin<'task>,
    /// The complete error message.
    pub message: &'task str,
}

/// The part of the run in which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin<'task> {
    /// The task: model, loss, metrics or optimizer.
    Task,
    /// Loading or preparing data.
    Data,
    /// The hook of this name.
    Hook(&'task str),
    /// A signal ended the run.
    Signal,
    /// The host itself, or an origin that this version of the API doesn't know.
    Host,
}

impl<'task> Failure<'task> {
    /// Reads the payload of `on_exception`.
    ///
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task FailureAbi) -> Self {
        // SAFETY: the caller guarantees that the texts live for `'task`.
        let (message, hook) = unsafe { (read(payload.message), read(payload.hook)) };
        let origin = match payload.origin {
            0 => Origin::Task,
            1 => Origin::Data,
            2 => Origin::Hook(hook),
            3 => Origin::Signal,
            _ => Origin::Host,
        };
        Failure { origin, message }
    }
}

/// Timings of a pass over a phase's data, in wall-clock time.
///
/// The difference between [`total`](EpochProfile::total) and the other timings is the overhead of the loop.
#[derive(Clone, Copy)]
pub struct EpochProfile<'task> {
    payload: &'task ProfileAbi,
}

/// Time spent in one hook, in an [`EpochProfile`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookTime<'task> {
    /// Name of the hook's manifest entry.
    pub name: &'task str,
    /// Number of calls.
    pub calls: u64,
    /// Total time of all calls; estimated from a sample if calls are short and many.
    pub time: Duration,
    /// Longest of the calls that were timed.
    pub longest: Duration,
    /// Time that the host has spent on its requests (saving, deleting, validating) since the last `epoch_profile`,
    /// apart from its calls.
    pub requests: Duration,
}

impl<'task> EpochProfile<'task> {
    /// Reads the payload of `epoch_profile`.
    ///
    /// # Safety
    ///
    /// All pointers in `payload` must be valid for `'task`.
    pub(crate) unsafe fn read(payload: &'task ProfileAbi) -> Self {
        EpochProfile { payload }
    }

    /// Time from `before_epoch` to `after_epoch`, including both.
    pub fn total(&self) -> Duration {
        duration(self.payload.total)
    }

    /// Time spent waiting for batches.
    pub fn data(&self) -> Duration {
        duration(self.payload.data)
    }

    /// Time spent in forward passes.
    pub fn forward(&self) -> Duration {
        duration(self.payload.forward)
    }

    /// Time spent on losses and metrics.
    pub fn loss(&self) -> Duration {
        duration(self.payload.loss)
    }

    /// Time spent in backward passes.
    pub fn backward(&self) -> Duration {
        duration(self.payload.backward)
    }

    /// Time spent in optimizer steps.
    pub fn update(&self) -> Duration {
        duration(self.payload.update)
    }

    /// Timings of the run's hooks, in the manifest's order.
    pub fn hooks(&self) -> impl Iterator<Item = HookTime<'task>> {
        let hooks = if self.payload.hooks.is_null() {
            &[]
        } else {
            // SAFETY: the host provides an array of `hook_count` entries that is valid for `'task`.
            unsafe { slice::from_raw_parts(self.payload.hooks, self.payload.hook_count) }
        };
        hooks.iter().map(|time| HookTime {
            // SAFETY: the host keeps the names alive until the end of the run.
            name: unsafe { read(time.name) },
            calls: time.calls,
            time: duration(time.seconds),
            longest: duration(time.longest),
            requests: duration(time.requests),
        })
    }
}

/// A checkpoint that is about to be saved, was saved, or was loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Checkpoint<'task> {
    /// Path of the checkpoint's directory.
    pub path: &'task Path,
    /// Tag of the checkpoint, the name of its directory.
    pub tag: &'task str,
    /// Name of the hook that requested it; empty if none did.
    pub asked_by: &'task str,
    /// Why it could not be written; `None` on success and before it is written.
    pub error: Option<&'task str>,
    /// Size in bytes; 0 before it is written.
    pub bytes: u64,
    /// Time taken to write or read it.
    pub duration: Duration,
    reference: &'task str,
    missing: &'task str,
}

impl<'task> Checkpoint<'task> {
    /// The reference to the checkpoint, once it is on disk: what a state that names it keeps.
    ///
    /// `None` before it is saved, and if it could not be saved.
    pub fn reference(&self) -> Option<CheckpointRef> {
        self.reference.parse().ok()
    }

    /// Whether the checkpoint of a reference in a hook's loaded state does not exist any more.
    ///
    /// A run resumes from such a state only if the user allows it (`--allow-changes`). At `after_load_checkpoint` a
    /// hook then has to forget what it can't find.
    pub fn is_missing(&self, reference: &CheckpointRef) -> bool {
        let text = reference.to_string();
        self.missing.split(' ').any(|missing| missing == text)
    }

    /// The texts of all missing references.
    #[doc(hidden)]
    pub fn missing(&self) -> impl Iterator<Item = &'task str> {
        self.missing.split(' ').filter(|text| !text.is_empty())
    }

    /// Reads the payload of the checkpoint points.
    ///
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task CheckpointAbi) -> Self {
        // SAFETY: the caller guarantees that the texts live for `'task`.
        let [path, tag, asked_by, error, reference, missing] = unsafe {
            [
                read(payload.path),
                read(payload.tag),
                read(payload.hook),
                read(payload.error),
                read(payload.reference),
                read(payload.missing),
            ]
        };
        Checkpoint {
            path: Path::new(path),
            tag,
            asked_by,
            error: (!error.is_empty()).then_some(error),
            bytes: payload.bytes,
            duration: duration(payload.seconds),
            reference,
            missing,
        }
    }
}

/// Seconds as a duration; zero if they are not a possible one.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Reads a text, with a placeholder for invalid UTF-8.
///
/// # Safety
///
/// The text must live for `'task`.
pub(super) unsafe fn read<'task>(text: TextAbi) -> &'task str {
    // SAFETY: the caller guarantees that the text lives for `'task`.
    unsafe { text.read() }.unwrap_or("(the host's text is not valid UTF-8)")
}

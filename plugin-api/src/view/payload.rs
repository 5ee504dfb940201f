//! What single mount points bring beside the view.

use std::path::Path;
use std::slice;
use std::time::Duration;

use crate::abi::{CheckpointAbi, FailureAbi, OutcomeAbi, ProfileAbi, TextAbi};

/// How the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome<'task> {
    /// All epochs were trained.
    Completed,
    /// A hook or the user asked for it.
    Stopped {
        /// Why.
        reason: &'task str,
    },
    /// A signal ended it; a checkpoint has been saved to go on from.
    Interrupted {
        /// The signal's name, as `SIGINT`.
        signal: &'task str,
    },
    /// An error ended it.
    Failed {
        /// The error, whole.
        error: &'task str,
    },
}

impl<'task> Outcome<'task> {
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task OutcomeAbi) -> Self {
        // SAFETY: the caller's promise.
        let text = unsafe { read(payload.reason) };
        match payload.kind {
            0 => Outcome::Completed,
            1 => Outcome::Stopped { reason: text },
            3 => Outcome::Interrupted { signal: text },
            _ => Outcome::Failed { error: text },
        }
    }
}

/// The error that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure<'task> {
    /// Whose error it is.
    pub origin: Origin<'task>,
    /// The error, whole.
    pub message: &'task str,
}

/// Whose error it is that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin<'task> {
    /// The task: model, loss, metrics, optimizer.
    Task,
    /// The data.
    Data,
    /// The hook of this name.
    Hook(&'task str),
    /// A signal.
    Signal,
    /// The host itself, or something that this version of the API doesn't know.
    Host,
}

impl<'task> Failure<'task> {
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task FailureAbi) -> Self {
        // SAFETY: the caller's promise.
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

/// Where the time of a pass over a phase's data went.
///
/// What is missing to [`total`](EpochProfile::total) is the loop itself.
#[derive(Clone, Copy)]
pub struct EpochProfile<'task> {
    payload: &'task ProfileAbi,
}

/// A hook's part in an [`EpochProfile`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookTime<'task> {
    /// The hook's name.
    pub name: &'task str,
    /// How often it was called.
    pub calls: u64,
    /// All its calls together, in seconds; estimated from a sample where calls are short and many.
    pub seconds: f64,
    /// The longest of the calls that were timed, in seconds.
    pub longest: f64,
}

impl<'task> EpochProfile<'task> {
    /// # Safety
    ///
    /// What `payload` leads to must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task ProfileAbi) -> Self {
        EpochProfile { payload }
    }

    /// Seconds from `before_epoch` to `after_epoch`, both counted in.
    pub fn total(&self) -> f64 {
        self.payload.total
    }

    /// Seconds spent waiting for batches.
    pub fn data(&self) -> f64 {
        self.payload.data
    }

    /// Seconds in forward passes.
    pub fn forward(&self) -> f64 {
        self.payload.forward
    }

    /// Seconds for losses and metrics.
    pub fn loss(&self) -> f64 {
        self.payload.loss
    }

    /// Seconds in backward passes.
    pub fn backward(&self) -> f64 {
        self.payload.backward
    }

    /// Seconds in steps of the optimizer.
    pub fn update(&self) -> f64 {
        self.payload.update
    }

    /// The hooks of the run, in the manifest's order.
    pub fn hooks(&self) -> impl Iterator<Item = HookTime<'task>> {
        let hooks = if self.payload.hooks.is_null() {
            &[]
        } else {
            // SAFETY: the host lends as many entries as it says, for 'task.
            unsafe { slice::from_raw_parts(self.payload.hooks, self.payload.hook_count) }
        };
        hooks.iter().map(|time| HookTime {
            // SAFETY: the host keeps the names until the end of the run.
            name: unsafe { read(time.name) },
            calls: time.calls,
            seconds: time.seconds,
            longest: time.longest,
        })
    }
}

/// A checkpoint that is about to be saved, was saved, or was loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Checkpoint<'task> {
    /// Its directory.
    pub path: &'task Path,
    /// Its tag.
    pub tag: &'task str,
    /// The hook that asked for it.
    pub asked_by: &'task str,
    /// Why it could not be written; nothing where it was, or before it is.
    pub error: Option<&'task str>,
    /// Its size in bytes; 0 before it is written.
    pub bytes: u64,
    /// How long writing or reading it took.
    pub duration: Duration,
}

impl<'task> Checkpoint<'task> {
    /// # Safety
    ///
    /// The texts in `payload` must live for `'task`.
    pub(crate) unsafe fn read(payload: &'task CheckpointAbi) -> Self {
        // SAFETY: the caller's promise.
        let (path, tag, asked_by, error) = unsafe {
            (
                read(payload.path),
                read(payload.tag),
                read(payload.hook),
                read(payload.error),
            )
        };
        Checkpoint {
            path: Path::new(path),
            tag,
            asked_by,
            error: (!error.is_empty()).then_some(error),
            bytes: payload.bytes,
            duration: Duration::try_from_secs_f64(payload.seconds).unwrap_or_default(),
        }
    }
}

/// # Safety
///
/// The text must live for `'task`.
pub(super) unsafe fn read<'task>(text: TextAbi) -> &'task str {
    // SAFETY: the caller's promise.
    unsafe { text.read() }.unwrap_or("(the host's text is not valid UTF-8)")
}

//! What single mount points bring beside the view.

use crate::abi::{FailureAbi, OutcomeAbi, TextAbi};

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

/// # Safety
///
/// The text must live for `'task`.
unsafe fn read<'task>(text: TextAbi) -> &'task str {
    // SAFETY: the caller's promise.
    unsafe { text.read() }.unwrap_or("(the host's text is not valid UTF-8)")
}

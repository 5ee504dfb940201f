//! The fence around every entry point, which keeps panics from crossing the boundary.
//!
//! A cdylib has its own copy of std, so the host cannot catch its panics, and `abi_stable` would abort the
//! process. The fence converts a panic into an error with message and location.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Once, OnceLock};
use std::thread::{self, ThreadId};

use abi_stable::std_types::RString;

use crate::abi::{ErrorAbi, Status};
use crate::{HookError, Result};

thread_local! {
    /// Location of the last panic on this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

thread_local! {
    /// Whether this thread is running a part of a hook's work, see [`catch_part`].
    static IN_PART: Cell<bool> = const { Cell::new(false) };
}

/// The thread on which the host calls: its panics are reported as errors, not printed.
static TRAINING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// A failure as it crosses the boundary: its status, and the content of the [`ErrorAbi`].
pub(crate) struct Refused {
    pub(crate) status: Status,
    pub(crate) error: HookError,
}

impl From<HookError> for Refused {
    fn from(error: HookError) -> Self {
        Refused {
            status: Status::ERROR,
            error,
        }
    }
}

/// Runs `body` and returns a status; writes errors and panics to `error`.
///
/// # Safety
///
/// `error` must be null or point to an [`ErrorAbi`] that nothing else accesses meanwhile.
#[doc(hidden)]
#[inline]
pub unsafe fn fence(error: *mut ErrorAbi, body: impl FnOnce() -> Result<()>) -> u32 {
    // SAFETY: the caller upholds the same contract for `error`.
    unsafe { fence_with(error, || body().map_err(Refused::from)) }
}

/// Like [`fence`], for bodies that choose the status.
///
/// # Safety
///
/// As for [`fence`].
#[inline]
pub(crate) unsafe fn fence_with(
    error: *mut ErrorAbi,
    body: impl FnOnce() -> std::result::Result<(), Refused>,
) -> u32 {
    // Unwind safety: after a panic the hook's state is whatever the hook left behind, and the user is warned
    // of that; memory safety does not depend on it.
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::OK.0,
        // SAFETY: the caller upholds the same contract for `error`.
        Ok(Err(refused)) => unsafe { refuse(error, refused) },
        // SAFETY: the caller upholds the same contract for `error`.
        Err(payload) => unsafe { panicked(error, payload) },
    }
}

/// A panic in a part of a hook's work, on any thread.
pub(crate) struct Caught {
    payload: Box<dyn Any + Send>,
    place: Option<String>,
}

impl Caught {
    /// Resumes unwinding, on the thread that distributed the work.
    pub(crate) fn go_on(self) -> ! {
        PLACE.with_borrow_mut(|kept| *kept = self.place);
        panic::resume_unwind(self.payload)
    }

    /// Drops the payload.
    pub(crate) fn forget(self) {
        discard(self.payload);
    }
}

/// Runs a part of a hook's work; a panic is caught, not printed, and later reported by the hook's call.
pub(crate) fn catch_part(part: impl FnOnce()) -> std::result::Result<(), Caught> {
    let before = IN_PART.replace(true);
    // Unwind safety: as in `fence_with`.
    let done = panic::catch_unwind(AssertUnwindSafe(part));
    IN_PART.set(before);
    done.map_err(|payload| Caught {
        payload,
        place: PLACE.with_borrow_mut(Option::take),
    })
}

/// Writes a failure to `error`; returns its status. Out of line, so that a call that succeeds saves no registers for it.
///
/// # Safety
///
/// As for [`fence`].
#[cold]
#[inline(never)]
unsafe fn refuse(error: *mut ErrorAbi, refused: Refused) -> u32 {
    let Refused { status, error: why } = refused;
    // SAFETY: the caller upholds the same contract for `error`.
    unsafe { write(error, why.message(), &why.reported_place()) };
    status.0
}

/// Writes a panic to `error`; returns its status.
///
/// # Safety
///
/// As for [`fence`].
#[cold]
#[inline(never)]
unsafe fn panicked(error: *mut ErrorAbi, payload: Box<dyn Any + Send>) -> u32 {
    let message = text_of(payload.as_ref());
    let place = PLACE.with_borrow_mut(Option::take).unwrap_or_default();
    // SAFETY: the caller upholds the same contract for `error`.
    unsafe { write(error, &message, &place) };
    discard(payload);
    Status::PANIC.0
}

/// Drops the payload of a panic, whose drop may panic too.
fn discard(payload: Box<dyn Any + Send>) {
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)));
    // What a drop panics with is leaked.
    dropped.unwrap_or_else(std::mem::forget);
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is not text".to_owned()
    }
}

/// Writes message and location to `error`, unless it is null.
///
/// # Safety
///
/// As for [`fence`].
#[cold]
unsafe fn write(error: *mut ErrorAbi, message: &str, place: &str) {
    // SAFETY: the caller guarantees that `error` is null or exclusively ours.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
        error.place = RString::from(place);
    }
}

/// From now on, keeps panics on this thread for the report instead of printing them.
///
/// Inside a plugin, all code on this thread runs behind the fence. Panics on other threads are printed as
/// usual.
pub(crate) fn keep_panics_of_this_thread() {
    if KEEPS.get() {
        // Only during calls of the test kit: the thread belongs to a test, whose own panics must be printed.
        return install();
    }
    if TRAINING_THREAD.set(thread::current().id()).is_ok() {
        install();
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if is_kept() {
                keep(info);
            } else {
                previous(info);
            }
        }));
    });
}

/// Whether a panic on this thread is to be kept instead of printed.
fn is_kept() -> bool {
    if KEEPS.get() {
        return true;
    }
    IN_PART.get() || TRAINING_THREAD.get() == Some(&thread::current().id())
}

thread_local! {
    /// Whether the test kit is currently calling a hook on this thread.
    static KEEPS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Keeps panics during `call`, and no others on this thread: for the test kit.
#[doc(hidden)]
pub fn keeping<T>(call: impl FnOnce() -> T) -> T {
    KEEPS.set(true);
    let answer = call();
    KEEPS.set(false);
    answer
}

fn keep(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    PLACE.with_borrow_mut(|kept| *kept = place);
}

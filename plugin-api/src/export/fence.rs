//! The fence around every entry: no panic crosses the boundary.
//!
//! A cdylib has its own copy of std, so the host could not catch what starts here, and
//! `abi_stable` would end the process. Inside the fence a panic becomes an error with message and place.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::{Once, OnceLock};
use std::thread::{self, ThreadId};

use abi_stable::std_types::RString;

use crate::abi::{ErrorAbi, Status};
use crate::{Error, Result};

thread_local! {
    /// Where the last panic on this thread came from.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

thread_local! {
    /// Whether this thread does a part of a hook's work, [`catch_part`].
    static IN_PART: Cell<bool> = const { Cell::new(false) };
}

/// The thread that the host calls on: its panics are reported, not printed.
static TRAINING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// A failure as it crosses the boundary: its status, and what goes into the [`ErrorAbi`].
pub(crate) struct Refused {
    pub(crate) status: Status,
    pub(crate) error: Error,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused {
            status: Status::ERROR,
            error,
        }
    }
}

/// Runs `body` and answers with a status; errors and panics are written to `error`.
///
/// # Safety
///
/// `error` must be null or lead to an [`ErrorAbi`] that nothing else uses meanwhile.
#[doc(hidden)]
#[inline]
pub unsafe fn fence(error: *mut ErrorAbi, body: impl FnOnce() -> Result<()>) -> u32 {
    // SAFETY: passed on.
    unsafe { fence_with(error, || body().map_err(Refused::from)) }
}

/// As [`fence`], for bodies that choose the status.
///
/// # Safety
///
/// As for [`fence`].
#[inline]
pub(crate) unsafe fn fence_with(
    error: *mut ErrorAbi,
    body: impl FnOnce() -> std::result::Result<(), Refused>,
) -> u32 {
    // Unwind safety: after a panic the host treats the hook's state as the hook left it, and says
    // so to the user; memory safety doesn't depend on it.
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::OK.0,
        Ok(Err(refused)) => {
            let place = refused.error.place().to_string();
            // SAFETY: passed on.
            unsafe { write(error, refused.error.message(), &place) };
            refused.status.0
        }
        Err(payload) => {
            // SAFETY: passed on.
            unsafe { panicked(error, payload) };
            Status::PANIC.0
        }
    }
}

/// A panic in a part of a hook's work, on whichever thread.
pub(crate) struct Caught {
    payload: Box<dyn Any + Send>,
    place: Option<String>,
}

impl Caught {
    /// Goes on unwinding, on the thread that gave the work out.
    pub(crate) fn go_on(self) -> ! {
        PLACE.with_borrow_mut(|kept| *kept = self.place);
        panic::resume_unwind(self.payload)
    }

    /// Leaves it: a payload's own drop may panic too.
    pub(crate) fn forget(self) {
        std::mem::forget(self.payload);
    }
}

/// Does a part of a hook's work. What panics in it is kept, not printed: the hook's call will tell it.
pub(crate) fn catch_part(part: impl FnOnce()) -> std::result::Result<(), Caught> {
    let before = IN_PART.replace(true);
    // Unwind safety: as for a whole call.
    let done = panic::catch_unwind(AssertUnwindSafe(part));
    IN_PART.set(before);
    done.map_err(|payload| Caught {
        payload,
        place: PLACE.with_borrow_mut(Option::take),
    })
}

/// Reports a panic.
///
/// # Safety
///
/// As for [`fence`].
#[cold]
unsafe fn panicked(error: *mut ErrorAbi, payload: Box<dyn Any + Send>) {
    let message = text_of(payload.as_ref());
    let place = PLACE.with_borrow_mut(Option::take).unwrap_or_default();
    // SAFETY: passed on.
    unsafe { write(error, &message, &place) };
    // A payload's own drop may panic too; it is forgotten rather than risked.
    std::mem::forget(payload);
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is no text".to_owned()
    }
}

/// # Safety
///
/// As for [`fence`].
#[cold]
unsafe fn write(error: *mut ErrorAbi, message: &str, place: &str) {
    // SAFETY: the caller's promise.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
        error.place = RString::from(place);
    }
}

/// From now on a panic on this thread is kept for the report instead of printed: inside a plugin
/// all code of this thread runs behind the fence. Other threads' panics are printed as ever.
pub(crate) fn keep_panics_of_this_thread() {
    #[cfg(feature = "testing")]
    if KEEPS.get() {
        // The test kit's calls alone: the thread is a test's, whose own panics are to be seen.
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

/// Whether a panic on this thread is to be kept.
fn is_kept() -> bool {
    #[cfg(feature = "testing")]
    if KEEPS.get() {
        return true;
    }
    IN_PART.get() || TRAINING_THREAD.get() == Some(&thread::current().id())
}

#[cfg(feature = "testing")]
thread_local! {
    /// Whether the test kit is calling a hook on this thread.
    static KEEPS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Keeps the panics of a call, and no others of this thread.
#[cfg(feature = "testing")]
pub(crate) fn keeping<T>(call: impl FnOnce() -> T) -> T {
    KEEPS.set(true);
    let answer = call();
    KEEPS.set(false);
    answer
}

fn keep(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    PLACE.with_borrow_mut(|kept| *kept = place);
}

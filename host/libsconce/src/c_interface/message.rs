//! The text of the last error of a thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Does the work of a function; its error and its panic are remembered, and -1 returned.
pub(super) fn guarded(work: impl FnOnce() -> Result<i32, String>) -> i32 {
    let done = catch_unwind(AssertUnwindSafe(work));
    let done = done.unwrap_or_else(|_| Err("Sconce has panicked: please report it".to_owned()));
    match done {
        Ok(result) => result,
        Err(text) => {
            remember(&text);
            -1
        }
    }
}

/// Remembers an error's text.
pub(super) fn remember(text: &str) {
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
}

/// The text of the last error on this thread; valid until the next call on it.
#[unsafe(no_mangle)]
pub extern "C" fn sconce_host_message() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// A text of the program's.
///
/// # Safety
///
/// `text` must be null or end with a zero byte, and outlive the call.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text
        .to_str()
        .map_err(|error| format!("`{what}`: {error}"))?;
    Ok(Some(text))
}

/// A text that may not be null.
///
/// # Safety
///
/// As of [`text`].
pub(super) unsafe fn given<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, String> {
    // SAFETY: guaranteed by the caller.
    unsafe { text(pointer, what) }?.ok_or_else(|| format!("`{what}` is NULL"))
}

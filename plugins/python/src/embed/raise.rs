//! Exceptions of ours, set for Python's code to catch.

use std::ffi::CString;

use super::symbols::{Object, Python};

/// Sets an exception.
pub(super) fn raise(python: &Python, kind: Object, message: &str) {
    let message = CString::new(message.replace('\0', "\u{fffd}")).unwrap_or_default();
    let kind = if kind.is_null() {
        python.value_error
    } else {
        kind
    };
    // SAFETY: callers are called by Python, which has the lock; the message is copied.
    unsafe { (python.PyErr_SetString)(kind, message.as_ptr()) };
}

//! What the functions of all tables begin and end with.

use std::ffi::c_void;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, Status};

use super::shared::Shared;

/// The run's state behind a context pointer.
///
/// # Safety
///
/// `context` must be null or come from [`Shared::context`] of a state that is alive for `'a`.
pub(super) unsafe fn shared<'a>(context: *const c_void) -> Option<&'a Shared<'a>> {
    // SAFETY: the caller's promise.
    unsafe { context.cast::<Shared<'a>>().as_ref() }
}

/// Answers with a failure: its status, and the message where the plugin wants to know it.
///
/// # Safety
///
/// `error` must be null or lead to an [`ErrorAbi`] that nothing else uses meanwhile.
#[cold]
pub(super) unsafe fn refuse(error: *mut ErrorAbi, status: Status, message: &str) -> u32 {
    // SAFETY: the caller's promise.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
    }
    status.0
}

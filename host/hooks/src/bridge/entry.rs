//! Helpers shared by the functions of all tables.

use std::ffi::c_void;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, Status};

use super::shared::BridgeState;

/// Returns the run's state that a context pointer refers to.
///
/// # Safety
///
/// `context` must be null or come from [`BridgeState::context`] of a state that is alive for `'a`.
pub(super) unsafe fn shared<'a>(context: *const c_void) -> Option<&'a BridgeState<'a>> {
    // SAFETY: the caller promises that `context` is null or points to a state that is alive for
    // `'a`.
    unsafe { context.cast::<BridgeState<'a>>().as_ref() }
}

/// Answers with a failure: returns its status, and stores the message if the plugin asked for one.
///
/// # Safety
///
/// `error` must be null or point to an [`ErrorAbi`] that nothing else accesses during the call.
#[cold]
pub(crate) unsafe fn refuse(error: *mut ErrorAbi, status: Status, message: &str) -> u32 {
    // SAFETY: the caller promises that `error` is null or points to an `ErrorAbi` that nothing else
    // accesses.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
    }
    status.0
}

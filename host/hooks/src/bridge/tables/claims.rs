//! `sconce.claims/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::ClaimsTable;

use crate::bridge::entry::{refuse, shared};

pub(super) static TABLE: ClaimsTable = ClaimsTable { claim };

unsafe extern "C" fn claim(context: *const c_void, what: TextAbi, error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which text and error
    // are borrowed.
    unsafe {
        let (Some(shared), Some(what)) = (shared(context), what.read()) else {
            return Status::INVALID.0;
        };
        match shared.claim(what) {
            Ok(()) => Status::OK.0,
            Err(message) => refuse(error, Status::INVALID, &message),
        }
    }
}

//! `sconce.screen/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::ScreenTable;

use crate::bridge::entry::shared;

pub(super) static TABLE: ScreenTable = ScreenTable { columns, status };

unsafe extern "C" fn columns(context: *const c_void) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call.
    let shared = unsafe { shared(context) };
    shared.map_or(0, |shared| shared.log.columns().into())
}

unsafe extern "C" fn status(context: *const c_void, text: TextAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the text is
    // borrowed.
    let (shared, text) = unsafe { (shared(context), text.read()) };
    let (Some(shared), Some(text)) = (shared, text) else {
        return Status::INVALID.0;
    };
    shared.log.status(text);
    Status::OK.0
}

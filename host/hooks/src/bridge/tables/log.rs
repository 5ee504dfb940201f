//! `sconce.log/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::LogTable;

use crate::bridge::entry::shared;
use crate::log::Level;

pub(super) static TABLE: LogTable = LogTable { log };

unsafe extern "C" fn log(context: *const c_void, level: u32, message: TextAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the text is
    // borrowed.
    let (shared, message) = unsafe { (shared(context), message.read()) };
    let (Some(shared), Some(message)) = (shared, message) else {
        return Status::INVALID.0;
    };
    if shared.is_reinstating.get() {
        // An earlier instance of the hook has said it.
        return Status::OK.0;
    }
    shared
        .log
        .log(Level::from_number(level), &shared.hook_name(), message);
    Status::OK.0
}

//! `sconce.resume/1`.

use std::ffi::c_void;

use sconce_plugin_api::ext::ResumeTable;

use crate::bridge::entry::shared;

pub(super) static TABLE: ResumeTable = ResumeTable { flags };

unsafe extern "C" fn flags(context: *const c_void) -> u64 {
    // SAFETY: the context is the one that the host handed out for this call.
    let shared = unsafe { shared(context) };
    if shared.is_some_and(|shared| shared.is_reinstating.get()) {
        return ResumeTable::RESUMED | ResumeTable::KNOWN | ResumeTable::RELOADED;
    }
    let Some((shared, known)) = shared.and_then(|shared| Some((shared, shared.resumed.get()?)))
    else {
        return 0;
    };
    let hook = shared.hook_name();
    if known.contains(&hook) {
        ResumeTable::RESUMED | ResumeTable::KNOWN
    } else {
        ResumeTable::RESUMED
    }
}

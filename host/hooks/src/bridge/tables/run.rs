//! `sconce.run/1`.

use std::ffi::c_void;

use sconce_plugin_api::ext::RunTable;

use crate::bridge::entry::shared;

pub(super) static TABLE: RunTable = RunTable {
    elapsed_seconds,
    remaining_seconds,
};

unsafe extern "C" fn elapsed_seconds(context: *const c_void) -> f64 {
    // SAFETY: the context is the one that the host handed out for this call.
    unsafe { shared(context) }.map_or(0.0, |shared| shared.clock.elapsed_seconds())
}

unsafe extern "C" fn remaining_seconds(context: *const c_void) -> f64 {
    // SAFETY: the context is the one that the host handed out for this call.
    unsafe { shared(context) }
        .and_then(|shared| shared.clock.remaining_seconds())
        .unwrap_or(-1.0)
}

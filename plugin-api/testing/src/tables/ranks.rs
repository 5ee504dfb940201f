//! The table for the processes that train together.

use std::ffi::c_void;

use super::{refuse, stage};
use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{RanksTable, why_no_gather_at, why_not_on_first};

pub(super) static TABLE: RanksTable = RanksTable {
    rank,
    size,
    is_repeated,
    gather,
};

unsafe extern "C" fn rank(context: *const c_void) -> u32 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(0, |stage| stage.ranks.rank as u32)
}

unsafe extern "C" fn size(context: *const c_void) -> u32 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(1, |stage| stage.ranks.size as u32)
}

unsafe extern "C" fn is_repeated(context: *const c_void) -> u32 {
    // SAFETY: the context is that of this call.
    unsafe { stage(context) }.map_or(0, |stage| u32::from(stage.repeats_batch()))
}

unsafe extern "C" fn gather(
    context: *const c_void,
    own: *const u8,
    length: usize,
    all: *mut u8,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which the hook lends its bytes, room for those of all ranks, and the
    // error.
    unsafe {
        let Some(stage) = stage(context) else {
            return Status::INVALID.0;
        };
        if !stage.hook.is_on_all_ranks {
            return refuse(
                error,
                Status::NOT_LEGAL_HERE,
                &why_not_on_first(&stage.hook.name),
            );
        }
        if let Some(message) = why_no_gather_at(stage.point(), stage.phase()) {
            return refuse(error, Status::NOT_LEGAL_HERE, &message);
        }
        let own = if length == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(own, length)
        };
        match stage.ranks.gather(own) {
            Ok(gathered) => {
                std::ptr::copy_nonoverlapping(gathered.as_ptr(), all, gathered.len());
                Status::OK.0
            }
            Err(message) => refuse(error, Status::ERROR, &message),
        }
    }
}

//! `sconce.vectors/1` in the child: passes over the copies that it was lent, by one thread.

use std::ffi::c_void;

use sconce_plugin_api::abi::ErrorAbi;
use sconce_plugin_api::ext::{VectorsAbi, VectorsTable};

use super::tensors;
use crate::bridge::{Passes, Results};

pub(super) static TABLE: VectorsTable = VectorsTable {
    reduce,
    change,
    combine,
};

/// The host's threads are in another process, and the training's cores are theirs.
const PASSES: Passes = Passes {
    tensors: &tensors::TABLE,
    threads: |_| 1,
};

unsafe extern "C" fn reduce(
    context: *const c_void,
    reduction: u32,
    number: f64,
    vectors: *const VectorsAbi,
    results: *mut f64,
    capacity: usize,
    needed: *mut usize,
    error: *mut ErrorAbi,
) -> u32 {
    let into = Results {
        first: results,
        capacity,
        needed,
    };
    // SAFETY: all arguments are borrowed for the call.
    unsafe { PASSES.reduce(context, (reduction, number), vectors, into, error) }
}

unsafe extern "C" fn change(
    context: *const c_void,
    change: u32,
    vectors: *const VectorsAbi,
    numbers: *const f64,
    count: usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: all arguments are borrowed for the call.
    unsafe { PASSES.change(context, change, vectors, (numbers, count), error) }
}

unsafe extern "C" fn combine(
    context: *const c_void,
    combination: u32,
    weight: f64,
    onto: *const VectorsAbi,
    from: *const VectorsAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: all arguments are borrowed for the call.
    unsafe { PASSES.combine(context, (combination, weight), onto, from, error) }
}

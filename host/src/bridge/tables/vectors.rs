//! `sconce.vectors/1`: [passes](crate::bridge::Passes) over the run's tensors.

use std::ffi::c_void;

use sconce_plugin_api::abi::ErrorAbi;
use sconce_plugin_api::ext::{VectorsAbi, VectorsTable};

use super::tensors;
use crate::bridge::passes::{Passes, Results};
use crate::kernels::region;

pub(super) static TABLE: VectorsTable = VectorsTable {
    reduce,
    change,
    combine,
};

const PASSES: Passes = Passes {
    tensors: &tensors::TABLE,
    threads: region::parts,
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
    // SAFETY: the context is the one that the host handed out for this call, for which all else is borrowed.
    unsafe {
        let into = Results {
            first: results,
            capacity,
            needed,
        };
        PASSES.reduce(context, (reduction, number), vectors, into, error)
    }
}

unsafe extern "C" fn change(
    context: *const c_void,
    change: u32,
    vectors: *const VectorsAbi,
    numbers: *const f64,
    count: usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as in `reduce`.
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
    // SAFETY: as in `reduce`.
    unsafe { PASSES.combine(context, (combination, weight), onto, from, error) }
}

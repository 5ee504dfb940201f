//! `sconce.vectors/1`: passes over the run's tensors, on the [CPU](crate::bridge::Passes) or where they are.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{VectorsAbi, VectorsTable};

use super::tensors;
use crate::bridge::device_passes::{Refusal, Selection};
use crate::bridge::entry::{refuse, shared};
use crate::bridge::passes::{Passes, Results};
use crate::bridge::shared::BridgeState;
use sconce_ops::kernels::region;

pub(super) static TABLE: VectorsTable = VectorsTable {
    reduce,
    change,
    combine,
};

const PASSES: Passes = Passes {
    tensors: &tensors::TABLE,
    threads: region::parts,
};

/// The run's state, if its parameters are on a device.
///
/// # Safety
///
/// The context is the one that the host handed out for this call.
unsafe fn on_device<'a>(context: *const c_void) -> Option<&'a BridgeState<'a>> {
    // SAFETY: guaranteed by the caller.
    unsafe { shared(context) }.filter(|shared| shared.tensors.device().is_some())
}

/// Answers a plugin.
///
/// # Safety
///
/// `error` is null or borrowed for the call.
unsafe fn answer(done: Result<(), Refusal>, error: *mut ErrorAbi) -> u32 {
    match done {
        Ok(()) => Status::OK.0,
        Err((status, message)) if message.is_empty() => status.0,
        // SAFETY: guaranteed by the caller.
        Err((status, message)) => unsafe { refuse(error, status, &message) },
    }
}

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
        let Some(shared) = on_device(context) else {
            return PASSES.reduce(context, (reduction, number), vectors, into, error);
        };
        let (Some(vectors), Some(needed)) = (vectors.as_ref(), needed.as_mut()) else {
            return Status::INVALID.0;
        };
        let done = Selection::of(shared, vectors, false).and_then(|selection| {
            *needed = selection.slice_count();
            if *needed > capacity || *needed == 0 {
                return Ok(());
            }
            let found = selection.reduce((reduction, number))?;
            std::slice::from_raw_parts_mut(results, *needed).copy_from_slice(&found);
            Ok(())
        });
        answer(done, error)
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
    unsafe {
        let Some(shared) = on_device(context) else {
            return PASSES.change(context, change, vectors, (numbers, count), error);
        };
        let Some(vectors) = vectors.as_ref() else {
            return Status::INVALID.0;
        };
        let numbers: &[f64] = if numbers.is_null() {
            &[]
        } else {
            std::slice::from_raw_parts(numbers, count)
        };
        let done = Selection::of(shared, vectors, true)
            .and_then(|selection| selection.change(shared, (change, numbers)));
        answer(done, error)
    }
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
    unsafe {
        let Some(shared) = on_device(context) else {
            return PASSES.combine(context, (combination, weight), onto, from, error);
        };
        let (Some(onto), Some(from)) = (onto.as_ref(), from.as_ref()) else {
            return Status::INVALID.0;
        };
        let done = Selection::of(shared, from, false).and_then(|from| {
            let onto = Selection::of(shared, onto, true)?;
            onto.combine(shared, &from, (combination, weight))
        });
        answer(done, error)
    }
}

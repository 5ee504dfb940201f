//! `sconce.gpu/1`.

use std::ffi::c_void;
use std::slice;

use candle_core::Device;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{GpuFiguresAbi, GpuSpanAbi, GpuTable};

use crate::bridge::BridgeState;
use crate::bridge::entry::{refuse, shared};
use sconce_ops::device;

pub(super) static TABLE: GpuTable = GpuTable {
    name,
    figures,
    synchronize,
    record,
    take,
};

/// The GPU of a run, if it has one.
fn gpu<'a>(shared: Option<&'a BridgeState<'_>>) -> Option<&'a Device> {
    shared?.gpu.device()
}

unsafe extern "C" fn name(context: *const c_void, name: *mut TextAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin lends memory for a text.
    let (shared, name) = unsafe { (shared(context), name.as_mut()) };
    let (Some(shared), Some(name)) = (shared, name) else {
        return Status::INVALID.0;
    };
    match shared.gpu.name() {
        Some(known) => {
            *name = TextAbi::new(known);
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn figures(context: *const c_void, figures: *mut GpuFiguresAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin lends memory for figures.
    let (shared, figures) = unsafe { (shared(context), figures.as_mut()) };
    let Some(figures) = figures else {
        return Status::INVALID.0;
    };
    let Some(device) = gpu(shared) else {
        return Status::NOT_FOUND.0;
    };
    let Some(memory) = device::memory(device) else {
        return Status::NOT_FOUND.0;
    };
    *figures = GpuFiguresAbi {
        used: memory.used,
        peak: memory.peak,
        reserved: memory.reserved,
        free: memory.free,
        total: memory.total,
        utilization: device::utilization(device).unwrap_or(f64::NAN),
    };
    Status::OK.0
}

unsafe extern "C" fn synchronize(context: *const c_void, error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the error is borrowed.
    unsafe {
        let Some(device) = gpu(shared(context)) else {
            return Status::NOT_FOUND.0;
        };
        match device::synchronize(device) {
            Ok(()) => Status::OK.0,
            Err(failure) => refuse(error, Status::ERROR, &failure.to_string()),
        }
    }
}

unsafe extern "C" fn record(context: *const c_void, is_on: u32, error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the error is borrowed.
    unsafe {
        let Some(shared) = shared(context) else {
            return Status::INVALID.0;
        };
        if gpu(Some(shared)).is_none() {
            return Status::NOT_FOUND.0;
        }
        match shared.gpu.record(is_on != 0, &shared.clock) {
            Ok(()) => Status::OK.0,
            Err(failure) => refuse(error, Status::ERROR, &failure.to_string()),
        }
    }
}

unsafe extern "C" fn take(
    context: *const c_void,
    spans: *mut GpuSpanAbi,
    capacity: usize,
) -> usize {
    // SAFETY: the context is the one that the host handed out for this call.
    let Some(shared) = (unsafe { shared(context) }) else {
        return 0;
    };
    if spans.is_null() {
        return 0;
    }
    let taken = shared.gpu.take(capacity);
    // SAFETY: the plugin lends memory for `capacity` spans, of which at most as many are written.
    let lent = unsafe { slice::from_raw_parts_mut(spans, taken.len().min(capacity)) };
    for (place, span) in lent.iter_mut().zip(&taken) {
        *place = GpuSpanAbi {
            name: TextAbi::new(span.name),
            begin: span.begin,
            duration: span.duration,
            stream: u32::from(span.is_copy) * GpuTable::COPIES,
        };
    }
    lent.len()
}

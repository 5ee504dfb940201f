//! `sconce.gpu/1` in the child: as for a run on the CPU. The GPU is the run's, and its figures are not sent to other processes.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{GpuFiguresAbi, GpuSpanAbi, GpuTable};

pub(super) static TABLE: GpuTable = GpuTable {
    name,
    figures,
    synchronize,
    record,
    take,
};

unsafe extern "C" fn name(_context: *const c_void, _name: *mut TextAbi) -> u32 {
    Status::NOT_FOUND.0
}

unsafe extern "C" fn figures(_context: *const c_void, _figures: *mut GpuFiguresAbi) -> u32 {
    Status::NOT_FOUND.0
}

unsafe extern "C" fn synchronize(_context: *const c_void, _error: *mut ErrorAbi) -> u32 {
    Status::NOT_FOUND.0
}

unsafe extern "C" fn record(_context: *const c_void, _is_on: u32, _error: *mut ErrorAbi) -> u32 {
    Status::NOT_FOUND.0
}

unsafe extern "C" fn take(
    _context: *const c_void,
    _spans: *mut GpuSpanAbi,
    _capacity: usize,
) -> usize {
    0
}

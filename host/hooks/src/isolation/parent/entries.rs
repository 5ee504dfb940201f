//! The functions of a hook in another process, as the host calls those of every hook.

use std::ffi::c_void;
use std::ptr;

use abi_stable::std_types::{RString, RVec};
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ErrorAbi, HookTable, Status, ViewAbi};

use super::super::message::Order;
use super::proxy::{Proxy, Returned, outside};
use crate::plugin::entry_error::ENDED;

/// Functions of a hook in another process.
pub(super) static TABLE: HookTable = HookTable {
    call,
    save_state,
    load_state,
    drop: drop_proxy,
};

/// The proxy that a hook's pointer leads to.
///
/// # Safety
///
/// `instance` must come from [`HookInstance::apart`](crate::plugin::instance::HookInstance::apart) and not have been
/// dropped; nothing else may use it meanwhile.
unsafe fn proxy<'a>(instance: *mut c_void) -> &'a mut Proxy {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut *instance.cast() }
}

/// Writes the error of a result, and returns its status.
///
/// # Safety
///
/// `error` must be null or point to an [`ErrorAbi`] that nothing else accesses during the call.
unsafe fn finish(returned: Returned, error: *mut ErrorAbi) -> u32 {
    if returned.status != Status::OK.0 {
        // SAFETY: guaranteed by the caller.
        if let Some(error) = unsafe { error.as_mut() } {
            error.message = RString::from(returned.message);
            error.place = RString::from(returned.place);
        }
    }
    returned.status
}

unsafe extern "C" fn call(
    instance: *mut c_void,
    point: u32,
    view: *const ViewAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the host passes its own instance, view and error for the call.
    unsafe {
        let proxy = proxy(instance);
        let returned = proxy.call(point, &*view);
        let is_cycle = point == Point::AfterCycle.number();
        if is_cycle && returned.status == Status::OK.0 && proxy.keeps_state() {
            let saved = proxy.save();
            if saved.status == ENDED {
                return finish(saved, error);
            }
        }
        finish(returned, error)
    }
}

unsafe extern "C" fn save_state(
    instance: *mut c_void,
    state: *mut RVec<u8>,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the host passes its own instance, state and error for the call.
    unsafe {
        let mut returned = proxy(instance).save();
        if let (0, Some(state)) = (returned.status, state.as_mut()) {
            *state = RVec::from(std::mem::take(&mut returned.bytes));
        }
        finish(returned, error)
    }
}

unsafe extern "C" fn load_state(
    instance: *mut c_void,
    state: *const u8,
    length: usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the host passes its own instance, state and error for the call.
    unsafe {
        let state = match length {
            0 => &[],
            _ => std::slice::from_raw_parts(state, length),
        };
        let proxy = proxy(instance);
        let returned = proxy.carry_out(&Order::Load(state), ptr::null(), outside("load_state"));
        if returned.status == Status::OK.0 && proxy.keeps_state() {
            proxy.keep_state(state);
        }
        finish(returned, error)
    }
}

unsafe extern "C" fn drop_proxy(instance: *mut c_void, error: *mut ErrorAbi) -> u32 {
    // SAFETY: the host passes its own instance for the last time, and its error.
    unsafe {
        let mut proxy: Box<Proxy> = Box::from_raw(instance.cast());
        finish(proxy.close(), error)
    }
}

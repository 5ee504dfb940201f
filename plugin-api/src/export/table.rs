//! The function table of a created hook, generic over the hook type.

use std::ffi::c_void;
use std::slice;

use abi_stable::std_types::RVec;

use super::Call;
use crate::abi::{ErrorAbi, HookTable, ViewAbi};
use crate::ext::Tables;
use crate::fence::fence;
use crate::{HookError, HookKind};

/// The object that a hook's `instance` pointer points to.
pub(super) struct Instance<H> {
    pub(super) hook: H,
    pub(super) tables: Tables,
}

/// The function table of a hook type: a constant that lives as long as the library, which is never unloaded.
pub(super) struct TableOf<H>(std::marker::PhantomData<H>);

impl<H: HookKind> TableOf<H> {
    pub(super) const TABLE: &'static HookTable = &HookTable {
        call: call::<H>,
        save_state: save_state::<H>,
        load_state: load_state::<H>,
        drop: drop_hook::<H>,
    };
}

/// Converts an `instance` pointer to a reference.
///
/// # Safety
///
/// `instance` must come from `create` of this type, not have been dropped, and not be in use.
unsafe fn instance<'a, H>(instance: *mut c_void) -> &'a mut Instance<H> {
    // SAFETY: the caller guarantees a live instance of this type that is not in use.
    unsafe { &mut *instance.cast::<Instance<H>>() }
}

unsafe extern "C" fn call<H: HookKind>(
    pointer: *mut c_void,
    point: u32,
    view: *const ViewAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the host passes the instance that `create` made, always on one thread, and lends view and error
    // for this call.
    unsafe {
        let Instance { hook, tables } = instance::<H>(pointer);
        fence(error, || {
            let view = view.as_ref().ok_or_else(no_view)?;
            hook.dispatch(point, &mut Call::new(view, tables))
        })
    }
}

#[cold]
fn no_view() -> HookError {
    HookError::new("the host called without a task view")
}

unsafe extern "C" fn save_state<H: HookKind>(
    pointer: *mut c_void,
    state: *mut RVec<u8>,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as for `call`; `state` points to a vector that is lent for this call.
    unsafe {
        let Instance { hook, .. } = instance::<H>(pointer);
        fence(error, || {
            let bytes = hook.save_state()?;
            if let Some(state) = state.as_mut() {
                *state = RVec::from(bytes);
            }
            Ok(())
        })
    }
}

unsafe extern "C" fn load_state<H: HookKind>(
    pointer: *mut c_void,
    state: *const u8,
    length: usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as for `call`; `length` bytes at `state` are lent for this call.
    unsafe {
        let Instance { hook, .. } = instance::<H>(pointer);
        let bytes = if state.is_null() || length == 0 {
            &[]
        } else {
            slice::from_raw_parts(state, length)
        };
        fence(error, || hook.load_state(bytes))
    }
}

unsafe extern "C" fn drop_hook<H: HookKind>(pointer: *mut c_void, error: *mut ErrorAbi) -> u32 {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the host calls this once, with the pointer that `create` made from a box of this type.
    unsafe {
        fence(error, || {
            drop(Box::from_raw(pointer.cast::<Instance<H>>()));
            Ok(())
        })
    }
}

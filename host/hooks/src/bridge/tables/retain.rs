//! `sconce.retain/1`: tensors lent in place, whose memory outlives the call.
//!
//! A token has a clone of the candle tensor: its storage, shape and strides live until the token is released. The loop
//! and its operations only ever write to a storage in place, so addresses in it stay valid. Of a tensor on a device it is the
//! copy in host memory, which keeps the elements of the call in which it was retained.

use std::ffi::c_void;

use sconce_plugin_api::abi::ErrorAbi;
use sconce_plugin_api::ext::{RetainTable, TensorAbi};

use super::tensors::{LentMemory, lend_to};

pub(super) static TABLE: RetainTable = RetainTable { retain, release };

unsafe extern "C" fn retain(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    token: *mut *mut c_void,
    error: *mut ErrorAbi,
) -> u32 {
    let keep = |kept: LentMemory| {
        // SAFETY: the caller lends `token` for this call.
        if let Some(token) = unsafe { token.as_mut() } {
            *token = Box::into_raw(Box::new(kept)).cast();
        }
    };
    // SAFETY: the context is the one that the host handed out for this call, for which tensor and error are borrowed.
    unsafe { lend_to(context, collection, index, writable, tensor, error, keep) }
}

unsafe extern "C" fn release(token: *mut c_void) {
    if !token.is_null() {
        // SAFETY: the token is a box that `retain` made, and its holder releases it once. Tensors are `Send`.
        drop(unsafe { Box::from_raw(token.cast::<LentMemory>()) });
    }
}

//! `sconce.retain/1`: tensors lent in place, whose memory outlives the call.
//!
//! A token has a clone of the candle tensor: its storage, shape and strides live until the token is released. The loop
//! and its operations only ever write to a storage in place, so addresses in it stay valid. Of a tensor on a device it is the
//! copy in host memory, which keeps the elements of the call in which it was retained.

use std::ffi::c_void;

use sconce_plugin_api::ext::{Refusal, Retain, RetainedAbi};

use super::tensors::{LentMemory, lend_kept};
use crate::bridge::BridgeState;

impl Retain for BridgeState<'_> {
    fn retain(
        &self,
        collection: u32,
        index: usize,
        writable: bool,
    ) -> Result<RetainedAbi, Refusal> {
        let (tensor, kept) = lend_kept(self, collection, index, writable)?;
        Ok(RetainedAbi {
            tensor,
            token: Box::into_raw(Box::new(kept)).cast(),
        })
    }

    unsafe fn release(token: *mut c_void) {
        if !token.is_null() {
            // SAFETY: the token is a box that `retain` made, and its holder releases it once. Tensors are `Send`.
            drop(unsafe { Box::from_raw(token.cast::<LentMemory>()) });
        }
    }
}

//! `sconce.retain/1`: tensors whose memory outlives the call, for languages that count references.
//!
//! A tensor of `sconce.tensors/1` is borrowed for the call. A garbage-collected language can't promise that nothing
//! refers to it afterwards; with this extension it can keep the memory instead.

use std::ffi::c_void;

use super::{TensorAbi, extension};
use crate::abi::Refusal;

/// Tensors whose memory outlives the call, for languages that count references.
#[extension("sconce.retain/1", local)]
pub trait Retain {
    /// As `at` of the tensors, but the elements, shape and strides stay at their addresses until `token` is released.
    ///
    /// The name is borrowed for the call. The host goes on using the memory: after the call its elements may change at any
    /// time, and writing to them is an error even where `writable` was granted.
    fn retain(&self, collection: u32, index: usize, writable: bool)
    -> Result<RetainedAbi, Refusal>;

    /// Releases the memory behind a token, once; does nothing for null. May be called from any thread and at any time.
    ///
    /// # Safety
    ///
    /// The token is null or one of `retain`, which was not released before.
    unsafe fn release(token: *mut c_void);
}

/// A tensor whose memory is kept. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RetainedAbi {
    /// The tensor.
    pub tensor: TensorAbi,
    /// What keeps its memory.
    pub token: *mut c_void,
}

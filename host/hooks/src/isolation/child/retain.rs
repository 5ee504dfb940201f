//! `sconce.retain/1` in the child: what is kept is a copy, since shared memory is used again by the next call.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{RetainTable, TensorAbi};

use super::tensors::at;

pub(super) static TABLE: RetainTable = RetainTable { retain, release };

/// Memory behind a token.
struct Kept {
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    /// The elements, aligned for each type of them; none if they are lent for writing and so have to go back.
    data: Box<[u64]>,
}

unsafe extern "C" fn retain(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    token: *mut *mut c_void,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: tensor, token and error are borrowed for the call; what `at` lends is used at once.
    unsafe {
        let (Some(tensor), Some(token)) = (tensor.as_mut(), token.as_mut()) else {
            return Status::INVALID.0;
        };
        let status = at(context, collection, index, writable, tensor, error);
        if status == Status::OK.0 {
            let mut kept = Box::new(copied(tensor, writable == 0));
            tensor.shape = kept.shape.as_ptr();
            tensor.strides = kept.strides.as_ptr();
            if writable == 0 {
                tensor.data = kept.data.as_mut_ptr().cast();
            }
            *token = Box::into_raw(kept).cast();
        }
        status
    }
}

/// Copies what a view needs.
///
/// # Safety
///
/// The view must be one that has just been lent.
unsafe fn copied(tensor: &TensorAbi, with_elements: bool) -> Kept {
    let dimensions = tensor.dimensions as usize;
    // SAFETY: a lent view has arrays of as many numbers as it has dimensions, and as many bytes as it says.
    let [shape, strides] = unsafe {
        [tensor.shape, tensor.strides].map(|numbers| match dimensions {
            0 => Box::default(),
            _ => Box::from(std::slice::from_raw_parts(numbers, dimensions)),
        })
    };
    let length = if with_elements {
        tensor.byte_length as usize
    } else {
        0
    };
    let mut data = vec![0_u64; length.div_ceil(8)].into_boxed_slice();
    // SAFETY: as above; the copy has room for the bytes.
    unsafe {
        data.as_mut_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(tensor.data.cast(), length);
    }
    Kept {
        shape,
        strides,
        data,
    }
}

unsafe extern "C" fn release(token: *mut c_void) {
    if !token.is_null() {
        // SAFETY: the token is a box that `retain` made, and its holder releases it once.
        drop(unsafe { Box::from_raw(token.cast::<Kept>()) });
    }
}

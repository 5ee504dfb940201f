//! `sconce.tensors/1` and `sconce.retain/1` in the child: tensors are copies in shared memory, which go back if they were lent for
//! writing; what is retained is copied a second time.

use std::ffi::c_void;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{Refusal, Retain, RetainedAbi, TensorAbi, Tensors, TensorsLocal};

use super::super::channel::Arena;
use super::super::message::Ask;
use super::session::{self, Lent, Session};
use super::tables::Child;

impl TensorsLocal for Child {
    fn at(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        session::with(|session| lend(session, collection, index as u64, writable))
            .unwrap_or_else(|| Err(Refusal::invalid("")))
    }
}

impl Retain for Child {
    fn retain(
        &self,
        collection: u32,
        index: usize,
        writable: bool,
    ) -> Result<RetainedAbi, Refusal> {
        let mut tensor = Tensors::at(self, collection, index, writable)?;
        // SAFETY: it has just been lent.
        let mut kept = Box::new(unsafe { copied(&tensor, !writable) });
        tensor.shape = kept.shape.as_ptr();
        tensor.strides = kept.strides.as_ptr();
        if !writable {
            tensor.data = kept.data.as_mut_ptr().cast();
        }
        Ok(RetainedAbi {
            tensor,
            token: Box::into_raw(kept).cast(),
        })
    }

    unsafe fn release(token: *mut c_void) {
        if !token.is_null() {
            // SAFETY: the token is a box that `retain` made, and its holder releases it once.
            drop(unsafe { Box::from_raw(token.cast::<Kept>()) });
        }
    }
}

/// The view of a tensor.
fn lend(
    session: &mut Session,
    collection: u32,
    index: u64,
    writable: bool,
) -> Result<TensorAbi, Refusal> {
    let failed = |message: &str| Refusal::new(Status::ERROR, message);
    let is_it = |lent: &Lent| (lent.collection, lent.index) == (collection, index);
    let known = session.lent.iter().position(is_it);
    let is_lent = |lent: &Lent| lent.is_writable || !writable;
    if !known
        .and_then(|known| session.lent.get(known))
        .is_some_and(is_lent)
    {
        let reply = session.ask(&Ask::TensorAt(collection, index, writable));
        reply.done()?;
        let Some(tensor) = reply.tensor else {
            return Err(failed("the host has lent nothing"));
        };
        let name = session.keep_text(&reply.answer.text);
        if let Some(known) = known.and_then(|known| session.lent.get_mut(known)) {
            // In the same place: what is borrowed from it stays valid.
            known.is_writable = true;
        } else {
            session.lent.push(Lent {
                collection,
                index,
                is_writable: writable,
                tensor,
                name,
            });
        }
    }
    let known = known.unwrap_or(session.lent.len().saturating_sub(1));
    let Some(lent) = session.lent.get(known) else {
        return Err(failed(""));
    };
    let form = &lent.tensor.form;
    let Some(data) = session
        .channel
        .place(Arena::Lent, lent.tensor.offset, form.byte_length)
    else {
        return Err(failed("the tensor is larger than the memory for tensors"));
    };
    let flags = lent.tensor.flags & !TensorAbi::WRITABLE;
    Ok(TensorAbi {
        data: data.as_ptr().cast(),
        byte_length: form.byte_length,
        // On the heap, where they stay until the next call, even if the list grows.
        shape: form.shape.as_ptr(),
        strides: form.strides.as_ptr(),
        name: TextAbi::new(lent.name),
        flags: if writable {
            flags | TensorAbi::WRITABLE
        } else {
            flags
        },
        dimensions: form.shape.len() as u32,
        device_type: lent.tensor.device.0,
        device_id: lent.tensor.device.1,
        type_code: form.type_code,
        type_bits: form.type_bits,
        type_lanes: 1,
    })
}

/// Memory behind a token.
struct Kept {
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    /// The elements, aligned for each type of them; none if they are lent for writing and so have to go back.
    data: Box<[u64]>,
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

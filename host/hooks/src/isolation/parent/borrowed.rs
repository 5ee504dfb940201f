//! Tensors that a hook was lent in a call, and their way back.

use std::ffi::c_void;
use std::io;

use sconce_plugin_api::ext::{Collection, TensorAbi};

use super::super::channel::{Arena, Bump, Channel};
use super::super::message::{LentTensor, TensorForm};
use crate::bridge::lent_before;

/// The tensors that a hook was lent in a call.
#[derive(Debug, Default)]
pub(super) struct BorrowedTensors {
    place: Bump,
    list: Vec<Loan>,
}

#[derive(Debug)]
struct Loan {
    collection: u32,
    index: usize,
    offset: u64,
    length: u64,
    is_writable: bool,
}

impl BorrowedTensors {
    /// Forgets the borrowed tensors of the last call.
    pub(super) fn begin(&mut self) {
        self.place.reset();
        self.list.clear();
    }

    /// Copies a tensor to shared memory, if it is not there yet.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    ///
    /// # Safety
    ///
    /// `tensor` must be one that the host has just lent.
    pub(super) unsafe fn lend(
        &mut self,
        (collection, index, is_writable): (u32, usize, bool),
        tensor: &TensorAbi,
        channel: &Channel,
    ) -> Result<LentTensor, &'static str> {
        let length = tensor.byte_length;
        let is_it =
            |borrowed: &&mut Loan| (borrowed.collection, borrowed.index) == (collection, index);
        let offset = match self.list.iter_mut().find(is_it) {
            Some(borrowed) if borrowed.length == length => {
                borrowed.is_writable |= is_writable;
                borrowed.offset
            }
            _ => {
                const FULL: &str = "there is no room for the tensor in the memory that is shared with the hook's process";
                let offset = self.place.take(length).ok_or(FULL)?;
                let place = channel.place(Arena::Lent, offset, length).ok_or(FULL)?;
                // SAFETY: the host lends `length` bytes from `data` on, and the arena has as many at this offset, which
                // are those of no other borrowed.
                unsafe {
                    place
                        .as_ptr()
                        .copy_from(tensor.data.cast(), length as usize);
                };
                self.list.push(Loan {
                    collection,
                    index,
                    offset,
                    length,
                    is_writable,
                });
                offset
            }
        };
        let dimensions = tensor.dimensions as usize;
        // SAFETY: the host lends arrays with `dimensions` numbers each.
        let [shape, strides] = unsafe {
            [tensor.shape, tensor.strides].map(|numbers| match dimensions {
                0 => Vec::new(),
                _ => std::slice::from_raw_parts(numbers, dimensions).to_vec(),
            })
        };
        Ok(LentTensor {
            form: TensorForm {
                shape,
                strides,
                byte_length: length,
                type_code: tensor.type_code,
                type_bits: tensor.type_bits,
            },
            offset,
            flags: tensor.flags,
            device: (tensor.device_type, tensor.device_id),
        })
    }

    /// Copies back what was lent for writing: nothing, unless all of it is there.
    ///
    /// # Errors
    ///
    /// If the memory is not there.
    ///
    /// # Safety
    ///
    /// `context` must be the argument that the host gave for this call.
    pub(super) unsafe fn give_back(
        &self,
        channel: &Channel,
        context: *const c_void,
    ) -> io::Result<()> {
        let written = || self.list.iter().filter(|borrowed| borrowed.is_writable);
        for borrowed in written() {
            channel.touch(Arena::Lent, borrowed.offset, borrowed.length);
        }
        channel.check()?;
        for borrowed in written() {
            // SAFETY: guaranteed by the caller.
            let tensor = unsafe { lent_before(context, borrowed.collection, borrowed.index) };
            let place = channel.place(Arena::Lent, borrowed.offset, borrowed.length);
            if let (Some(place), Some((data, length))) = (place, tensor)
                && length == borrowed.length
            {
                // SAFETY: the host lends as many bytes for writing, and the arena has them; they don't overlap.
                unsafe { place.as_ptr().copy_to(data, length as usize) };
            }
        }
        Ok(())
    }

    /// Whether a tensor of a collection was lent.
    pub(super) fn has_any_of(&self, collection: Collection) -> bool {
        let mut list = self.list.iter();
        list.any(|borrowed| borrowed.collection == collection as u32)
    }

    /// Forgets a tensor that is no longer there: what the hook wrote to it goes with it.
    pub(super) fn forget(&mut self, collection: Collection, index: usize) {
        self.list
            .retain(|borrowed| (borrowed.collection, borrowed.index) != (collection as u32, index));
    }
}

//! `sconce.tensors/1` in the child: tensors are copies in shared memory, which go back if they were lent for writing.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{TensorAbi, TensorsTable};

use super::super::channel::Arena;
use super::super::message::Ask;
use super::session::{self, Lent, Session, ask, passed_on};
use crate::bridge::refuse;

pub(super) static TABLE: TensorsTable = TensorsTable { count, at, find };

unsafe extern "C" fn count(_context: *const c_void, collection: u32) -> usize {
    ask(&Ask::TensorCount(collection)).map_or(0, |answer| answer.count as usize)
}

unsafe extern "C" fn find(
    _context: *const c_void,
    collection: u32,
    name: TextAbi,
    index: *mut usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: name, index and error are borrowed for the call.
    unsafe {
        let (Some(name), Some(index)) = (name.read(), index.as_mut()) else {
            return Status::INVALID.0;
        };
        let answer = ask(&Ask::TensorFind(collection, name));
        if let Some(answer) = answer
            .as_ref()
            .filter(|answer| answer.status == Status::OK.0)
        {
            *index = answer.count as usize;
        }
        passed_on(answer.as_ref(), error)
    }
}

pub(super) unsafe extern "C" fn at(
    _context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: tensor and error are borrowed for the call.
    unsafe {
        let Some(place) = tensor.as_mut() else {
            return Status::INVALID.0;
        };
        let lent =
            session::with(|session| lend(session, collection, index as u64, writable != 0, place));
        match lent {
            None => Status::INVALID.0,
            Some(Ok(())) => Status::OK.0,
            Some(Err((status, message))) if message.is_empty() => status,
            Some(Err((status, message))) => refuse(error, Status(status), &message),
        }
    }
}

/// Writes the view of a tensor to `place`.
fn lend(
    session: &mut Session,
    collection: u32,
    index: u64,
    writable: bool,
    place: &mut TensorAbi,
) -> Result<(), (u32, String)> {
    let is_it = |lent: &Lent| (lent.collection, lent.index) == (collection, index);
    let known = session.lent.iter().position(is_it);
    let is_lent = |lent: &Lent| lent.is_writable || !writable;
    if !known
        .and_then(|known| session.lent.get(known))
        .is_some_and(is_lent)
    {
        let answer = session.ask(&Ask::TensorAt(collection, index, writable));
        if answer.status != Status::OK.0 {
            return Err((answer.status, answer.message));
        }
        let Some(tensor) = answer.tensor else {
            return Err((Status::ERROR.0, "the host has lent nothing".to_owned()));
        };
        let name = session.keep_text(&answer.text);
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
        return Err((Status::ERROR.0, String::new()));
    };
    let form = &lent.tensor.form;
    let Some(data) = session
        .channel
        .place(Arena::Lent, lent.tensor.offset, form.byte_length)
    else {
        let message = "the tensor is larger than the memory for tensors".to_owned();
        return Err((Status::ERROR.0, message));
    };
    let flags = lent.tensor.flags & !TensorAbi::WRITABLE;
    *place = TensorAbi {
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
    };
    Ok(())
}

//! `sconce.values/1` in the child.

use std::ffi::c_void;
use std::slice;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Collection, TensorAbi, ValuesTable};

use super::super::channel::Arena;
use super::super::message::{Ask, TensorForm};
use super::session::{self, Answer, Session, passed_on};
use crate::bridge::{readable, refuse};

pub(super) static TABLE: ValuesTable = ValuesTable {
    set,
    set_tensor,
    get,
    remove,
};

unsafe extern "C" fn set(
    _context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: name, text and error are borrowed for the call.
    unsafe {
        let Some(name) = name.read() else {
            return refuse(error, Status::INVALID, "the name is not valid UTF-8");
        };
        let Some(json) = json.read() else {
            return refuse(error, Status::INVALID, "the value is not valid UTF-8");
        };
        let answer = session::with(|session| {
            let answer = session.ask(&Ask::ValueSet(keep, name, json));
            forget_published(session);
            answer
        });
        passed_on(answer.as_ref(), error)
    }
}

unsafe extern "C" fn set_tensor(
    _context: *const c_void,
    keep: u32,
    name: TextAbi,
    tensor: *const TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: name, tensor and error are borrowed for the call.
    unsafe {
        let Some(tensor) = tensor.as_ref() else {
            return Status::INVALID.0;
        };
        let Some(name) = name.read() else {
            return refuse(error, Status::INVALID, "the name is not valid UTF-8");
        };
        if let Err(problem) = readable(tensor) {
            return refuse(error, Status::INVALID, &problem);
        }
        let answer = session::with(|session| give(session, keep, name, tensor));
        passed_on(answer.as_ref(), error)
    }
}

/// Copies a tensor to shared memory, from where the host takes it.
///
/// # Safety
///
/// `tensor` must be [readable] memory that is borrowed for the call.
unsafe fn give(session: &mut Session, keep: u32, name: &str, tensor: &TensorAbi) -> Answer {
    let too_large = || Answer {
        status: Status::ERROR.0,
        count: 0,
        number: 0.0,
        text: String::new(),
        message: "the tensor is larger than the memory for tensors".to_owned(),
        tensor: None,
        bytes: Vec::new(),
    };
    // What is copied next is in the host's memory by the time of the answer.
    session.given.reset();
    let Some(offset) = session.given.take(tensor.byte_length) else {
        return too_large();
    };
    let Some(place) = session
        .channel
        .place(Arena::Given, offset, tensor.byte_length)
    else {
        return too_large();
    };
    let dimensions = tensor.dimensions as usize;
    // SAFETY: the view's arrays have `dimensions` numbers, and its memory `byte_length` bytes, by the contract of the
    // extension; the arena has as many, by the check above, and is used by nothing else.
    let [shape, strides] = unsafe {
        place
            .as_ptr()
            .copy_from(tensor.data.cast(), tensor.byte_length as usize);
        [tensor.shape, tensor.strides].map(|numbers| match dimensions {
            0 => Vec::new(),
            _ => slice::from_raw_parts(numbers, dimensions).to_vec(),
        })
    };
    let form = TensorForm {
        shape,
        strides,
        byte_length: tensor.byte_length,
        type_code: tensor.type_code,
        type_bits: tensor.type_bits,
    };
    let answer = session.ask(&Ask::ValueSetTensor(keep, name, form, offset));
    forget_published(session);
    answer
}

/// Forgets copies of published tensors, of which one may no longer be there. The host lends those that are in the same
/// place again, with what the hook has written to them.
fn forget_published(session: &mut Session) {
    let collections = [Collection::Published, Collection::Checkpoint].map(|known| known as u32);
    session
        .lent
        .retain(|lent| !collections.contains(&lent.collection));
}

unsafe extern "C" fn get(
    _context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: *mut TextAbi,
) -> u32 {
    // SAFETY: the name and memory for one text are borrowed for the call.
    let (Some(name), Some(json)) = (unsafe { (name.read(), json.as_mut()) }) else {
        return Status::INVALID.0;
    };
    let found = session::with(|session| {
        let answer = session.ask(&Ask::ValueGet(keep, name));
        let is_there = answer.status == Status::OK.0;
        let text = if is_there {
            session.keep_value(keep, name, answer.text)
        } else {
            TextAbi::EMPTY
        };
        (answer.status, text)
    });
    let (status, text) = found.unwrap_or((Status::INVALID.0, TextAbi::EMPTY));
    if status == Status::OK.0 {
        *json = text;
    }
    status
}

unsafe extern "C" fn remove(_context: *const c_void, name: TextAbi, error: *mut ErrorAbi) -> u32 {
    // SAFETY: name and error are borrowed for the call.
    unsafe {
        let Some(name) = name.read() else {
            return Status::INVALID.0;
        };
        let answer = session::with(|session| {
            let answer = session.ask(&Ask::ValueRemove(name));
            forget_published(session);
            answer
        });
        passed_on(answer.as_ref(), error)
    }
}

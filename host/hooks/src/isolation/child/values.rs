//! `sconce.values/1` in the child, and what else publishes a tensor or takes one: `sconce.forward/1` and `sconce.given-loss/1`.

use std::slice;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Collection, ForwardCall, ForwardLocal, Forwards, GivenLoss, HostCall, Refusal, TensorAbi,
    ValuesCall, ValuesLocal,
};

use super::super::channel::Arena;
use super::super::message::{Ask, TensorForm};
use super::session::{self, Session};
use super::tables::Child;
use crate::bridge::readable;

impl ValuesLocal for Child {
    fn set(&self, keep: u32, name: &str, json: &str) -> Result<(), Refusal> {
        let done = self.ask(HostCall::Values(ValuesCall::Set { keep, name, json }));
        session::with(forget_published);
        done
    }

    unsafe fn set_tensor(&self, keep: u32, name: &str, tensor: &TensorAbi) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            readable(tensor).map_err(Refusal::invalid)?;
            let publish = |form, offset| Ask::SetTensor(keep, name, form, offset);
            session::with(|session| {
                let done = give(session, tensor, publish);
                forget_published(session);
                done
            })
            .unwrap_or_else(|| Err(Refusal::invalid("")))
        }
    }

    fn get(&self, keep: u32, name: &str) -> Option<&str> {
        let text = session::with(|session| {
            let call = HostCall::Values(ValuesCall::Get { keep, name });
            let answer = session.ask(&Ask::Host(call)).answer;
            let is_there = answer.status == Status::OK.0;
            is_there.then(|| session.keep_value(keep, name, answer.text.into_owned()))
        });
        // SAFETY: it lives until the value changes, as the extension says.
        unsafe { text??.read() }
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        let done = self.ask(HostCall::Values(ValuesCall::Remove { name }));
        session::with(forget_published);
        done
    }
}

impl ForwardLocal for Child {
    fn run(
        &self,
        set: &str,
        view: u32,
        module: &str,
        mode: u32,
        name: &str,
    ) -> Result<(), Refusal> {
        let done = self.ask(HostCall::Forward(ForwardCall::Run {
            set,
            view,
            module,
            mode,
            name,
        }));
        session::with(forget_published);
        done
    }
}

impl GivenLoss for Child {
    unsafe fn set(&self, value: f64, gradient: &TensorAbi) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            readable(gradient).map_err(Refusal::invalid)?;
            let loss = |form, offset| Ask::GiveLoss(value, form, offset);
            session::with(|session| give(session, gradient, loss))
                .unwrap_or_else(|| Err(Refusal::invalid("")))
        }
    }
}

/// Copies a tensor to shared memory, from where the host takes it, as it is asked to: with the tensor's form and where it is.
///
/// # Safety
///
/// `tensor` must be [readable] memory that is borrowed for the call.
unsafe fn give<'a>(
    session: &mut Session,
    tensor: &TensorAbi,
    ask: impl FnOnce(TensorForm, u64) -> Ask<'a>,
) -> Result<(), Refusal> {
    let too_large = || {
        let message = "the tensor is larger than the memory for tensors";
        Err(Refusal::new(Status::ERROR, message))
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
    session.ask(&ask(form, offset)).done()
}

/// Forgets copies of published tensors, of which one may no longer be there. The host lends those that are in the same
/// place again, with what the hook has written to them.
fn forget_published(session: &mut Session) {
    let collections = [Collection::Published, Collection::Checkpoint].map(|known| known as u32);
    session
        .lent
        .retain(|lent| !collections.contains(&lent.collection));
}

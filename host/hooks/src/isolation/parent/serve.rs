//! Answers what the child asks, by the host's own functions: what is legal, and what it means, has one source.

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{
    Collection, ForwardCall, GivenLoss, HostCall, Keep, Ranks, Refusal, TensorAbi, Tensors,
    Travels, Values, ValuesCall,
};

use super::super::channel::{Arena, Channel};
use super::super::message::{Ask, Reply, TensorForm, append};
use super::borrowed::BorrowedTensors;
use crate::bridge::BridgeState;

/// What is needed to answer.
pub(super) struct Server<'a> {
    /// The state of the run, for the call in progress.
    pub(super) host: &'a BridgeState<'a>,
    pub(super) channel: &'a Channel,
    pub(super) borrowed: &'a mut BorrowedTensors,
}

/// The largest number of dimensions of a tensor that a hook gives.
const DIMENSIONS: usize = 64;

impl<'a> Server<'a> {
    /// Answers a question, and appends the answer to `message`.
    ///
    /// # Errors
    ///
    /// If the answer can't be written.
    pub(super) fn answer(&mut self, ask: &Ask<'_>, message: &mut Vec<u8>) -> postcard::Result<()> {
        append(&self.reply(ask), message)
    }

    /// The host's answer, whose texts live until something changes.
    pub(super) fn reply(&mut self, ask: &Ask<'_>) -> Reply<'a> {
        let host = self.host;
        match *ask {
            Ask::Host(call) => {
                let replaced = match call {
                    HostCall::Values(ValuesCall::Set { keep, name, .. }) => {
                        self.lent_of(keep, name)
                    }
                    HostCall::Forward(ForwardCall::Run { name, .. }) => {
                        self.lent_of(Keep::Batch as u32, name)
                    }
                    HostCall::Values(ValuesCall::Remove { name }) => {
                        self.lent_of(Keep::Run as u32, name)
                    }
                    _ => None,
                };
                let answer = call.answer(host);
                self.forget_if(answer.status == Status::OK.0, replaced);
                answer.into()
            }
            Ask::TensorAt(collection, index, writable) => {
                match self.lend(collection, index, writable) {
                    Ok(lent) => lent,
                    Err(refusal) => Reply::refused(refusal),
                }
            }
            Ask::SetTensor(keep, name, ref form, offset) => {
                let done = self.publish((keep, name), form, offset);
                Travels::answer(done).into()
            }
            Ask::GiveLoss(value, ref form, offset) => {
                Travels::answer(self.give_loss(value, form, offset)).into()
            }
            Ask::Gather(own) => {
                let mut all = vec![0; own.len().saturating_mul(host.size() as usize)];
                let answer = Travels::answer(host.gather(own, &mut all));
                Reply {
                    bytes: all.into(),
                    ..Reply::from(answer)
                }
            }
        }
    }

    /// Lends a tensor.
    fn lend(&mut self, collection: u32, index: u64, writable: bool) -> Result<Reply<'a>, Refusal> {
        let Ok(slot) = usize::try_from(index) else {
            return Err(refused("the index is out of range"));
        };
        let tensor = self.host.at(collection, slot, writable)?;
        let place = (collection, slot, writable);
        // SAFETY: the tensor has just been lent, and is copied at once; its name lives as long.
        let (lent, name) = unsafe {
            let lent = self.borrowed.lend(place, &tensor, self.channel);
            (lent.map_err(refused)?, tensor.name.read())
        };
        let mut reply = Reply {
            tensor: Some(lent),
            ..Reply::default()
        };
        reply.answer.text = name.unwrap_or_default().to_owned().into();
        Ok(reply)
    }

    /// A tensor of this form that the hook has put into its memory for tensors; whether it fits its shape is checked by whoever reads
    /// it.
    fn given(&self, form: &TensorForm, offset: u64) -> Result<TensorAbi, Refusal> {
        if form.shape.len() > DIMENSIONS || form.shape.len() != form.strides.len() {
            return Err(refused("the tensor has too many dimensions"));
        }
        let place = self.channel.place(Arena::Given, offset, form.byte_length);
        // Tensors of all element types are aligned to their sizes in the arena.
        let Some(place) = place.filter(|_| offset.is_multiple_of(8)) else {
            return Err(refused("the tensor is not in the memory for tensors"));
        };
        Ok(TensorAbi {
            data: place.as_ptr().cast(),
            byte_length: form.byte_length,
            shape: form.shape.as_ptr(),
            strides: form.strides.as_ptr(),
            name: TextAbi::EMPTY,
            flags: 0,
            dimensions: form.shape.len() as u32,
            device_type: 1,
            device_id: 0,
            type_code: form.type_code,
            type_bits: form.type_bits,
            type_lanes: 1,
        })
    }

    /// Takes the batch's loss.
    fn give_loss(&self, value: f64, form: &TensorForm, offset: u64) -> Result<(), Refusal> {
        let gradient = self.given(form, offset)?;
        // SAFETY: as in `publish`.
        unsafe { GivenLoss::set(self.host, value, &gradient) }
    }

    /// Takes a tensor that the hook publishes.
    fn publish(
        &mut self,
        (keep, name): (u32, &str),
        form: &TensorForm,
        offset: u64,
    ) -> Result<(), Refusal> {
        let tensor = self.given(form, offset)?;
        let replaced = self.lent_of(keep, name);
        // SAFETY: the view's arrays have as many numbers as it says, and its memory as many bytes, by the checks above; that
        // it fits its shape is checked by the function, which copies.
        let done = unsafe { self.host.set_tensor(keep, name, &tensor) };
        self.forget_if(done.is_ok(), replaced);
        done
    }

    /// Where the published tensor of a name is, or the checkpoint's, if the hook was lent any of them.
    fn lent_of(&self, keep: u32, name: &str) -> Option<(Collection, usize)> {
        let collection = match Keep::from_number(keep)? {
            Keep::Checkpoint => Collection::Checkpoint,
            _ => Collection::Published,
        };
        if !self.borrowed.has_any_of(collection) {
            return None;
        }
        let index = self.host.find(collection as u32, name).ok()?;
        Some((collection, index))
    }

    /// Forgets a tensor that was lent, if what replaces or removes it has succeeded.
    fn forget_if(&mut self, is_done: bool, replaced: Option<(Collection, usize)>) {
        if let (true, Some((collection, index))) = (is_done, replaced) {
            self.borrowed.forget(collection, index);
        }
    }
}

fn refused(message: &str) -> Refusal {
    Refusal::new(Status::ERROR, message)
}

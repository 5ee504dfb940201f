//! Answers what the child asks, by the host's own tables: what is legal, and what it means, has one source.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Collection, Keep, MetricAbi, TensorAbi};

use super::super::channel::{Arena, Channel};
use super::super::message::{Ask, Reply, TensorForm};
use super::borrowed::BorrowedTensors;
use super::host::HostTables;

/// What is needed to answer.
pub(super) struct Server<'a> {
    pub(super) tables: &'a HostTables,
    /// The host's argument for the call in progress.
    pub(super) context: *const c_void,
    pub(super) channel: &'a Channel,
    pub(super) borrowed: &'a mut BorrowedTensors,
}

/// The largest number of dimensions of a tensor that a hook gives.
const DIMENSIONS: usize = 64;

impl Server<'_> {
    /// Answers a question, and appends the answer to `message`.
    ///
    /// # Safety
    ///
    /// The context must be the one that the host gave for the call in progress.
    pub(super) unsafe fn answer(&mut self, ask: &Ask<'_>, message: Vec<u8>) -> Vec<u8> {
        let mut error = ErrorAbi::new();
        // SAFETY: guaranteed by the caller.
        let mut reply = unsafe { self.reply(ask, &mut error) };
        if reply.message.is_empty() {
            reply.message = error.message.as_str();
        }
        postcard::to_extend(&reply, message).unwrap_or_default()
    }

    /// The host's answer, whose texts live until something changes.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn reply<'r>(&mut self, ask: &Ask<'_>, error: &mut ErrorAbi) -> Reply<'r> {
        let HostTables {
            claims,
            log,
            metrics,
            plan,
            ranks,
            requests,
            resume,
            run,
            screen,
            task,
            tensors,
            values,
            ..
        } = self.tables;
        let context = self.context;
        let mut text = TextAbi::EMPTY;
        let mut reply = Reply::default();
        // SAFETY: the context is the host's for this call, by the caller's guarantee; all texts and places are borrowed for
        // the call of the function.
        unsafe {
            match *ask {
                Ask::Log(level, message) => {
                    reply.status = (log.log)(context, level, TextAbi::new(message));
                }
                Ask::Status(text) => reply.status = (screen.status)(context, TextAbi::new(text)),
                Ask::Columns => reply.count = (screen.columns)(context).into(),
                Ask::MetricCount(phase) => reply.count = (metrics.count)(context, phase) as u64,
                Ask::MetricAt(phase, index) => {
                    let mut metric = MetricAbi {
                        name: TextAbi::EMPTY,
                        value: 0.0,
                    };
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    reply.status = (metrics.at)(context, phase, index, &raw mut metric);
                    text = metric.name;
                    reply.number = metric.value;
                }
                Ask::MetricGet(phase, name) => {
                    let value = &raw mut reply.number;
                    reply.status = (metrics.get)(context, phase, TextAbi::new(name), value);
                }
                Ask::Publish(name, value) => {
                    reply.status = (metrics.publish)(context, TextAbi::new(name), value, error);
                }
                Ask::TensorCount(collection) => {
                    reply.count = (tensors.count)(context, collection) as u64;
                }
                Ask::TensorFind(collection, name) => {
                    let mut index = 0;
                    let name = TextAbi::new(name);
                    reply.status = (tensors.find)(context, collection, name, &raw mut index, error);
                    reply.count = index as u64;
                }
                Ask::TensorAt(collection, index, writable) => {
                    return self.lend((collection, index, writable), error);
                }
                Ask::ValueGet(keep, name) => {
                    reply.status = (values.get)(context, keep, TextAbi::new(name), &raw mut text);
                }
                Ask::ValueSet(keep, name, json) => {
                    reply.status = self.set_value(keep, name, json, error);
                }
                Ask::ValueSetTensor(keep, name, ref form, offset) => {
                    return self.publish((keep, name), form, offset, error);
                }
                Ask::ValueRemove(name) => {
                    reply.status = self.remove_value(name, error);
                }
                Ask::Request(request, number, text) => {
                    let text = TextAbi::new(text);
                    reply.status = (requests.request)(context, request, number, text, error);
                }
                Ask::Facts => reply.status = (task.facts)(context, &raw mut text),
                Ask::GroupCount => reply.count = (task.group_count)(context) as u64,
                Ask::Group(index) => {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    let (rate, mut decay) = (&raw mut reply.number, 0.0_f64);
                    reply.status =
                        (task.group)(context, index, &raw mut text, rate, &raw mut decay);
                    // The answer has room for one number; the other one goes as its bits.
                    reply.count = decay.to_bits();
                }
                Ask::Elapsed => reply.number = (run.elapsed_seconds)(context),
                Ask::Remaining => reply.number = (run.remaining_seconds)(context),
                Ask::ResumeFlags => reply.count = (resume.flags)(context),
                Ask::Plan => reply.status = (plan.plan)(context, &raw mut text),
                Ask::IsRepeated => reply.count = (ranks.is_repeated)(context).into(),
                Ask::Gather(own) => {
                    let size = (ranks.size)(context) as usize;
                    let mut all = vec![0; own.len().saturating_mul(size)];
                    let into = all.as_mut_ptr();
                    reply.status = (ranks.gather)(context, own.as_ptr(), own.len(), into, error);
                    reply.bytes = all.into();
                }
                Ask::Claim(what) => {
                    reply.status = (claims.claim)(context, TextAbi::new(what), error);
                }
            }
            reply.text = text.read().unwrap_or_default();
        }
        reply
    }

    /// Lends a tensor.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn lend<'r>(
        &mut self,
        (collection, index, writable): (u32, u64, bool),
        error: &mut ErrorAbi,
    ) -> Reply<'r> {
        let mut tensor = TensorAbi::EMPTY;
        let Ok(index) = usize::try_from(index) else {
            return refused("the index is out of range");
        };
        // SAFETY: the context is the host's for this call; tensor and error are valid for it. What was lent is used at once.
        unsafe {
            let status = (self.tables.tensors.at)(
                self.context,
                collection,
                index,
                writable.into(),
                &raw mut tensor,
                error,
            );
            if status != Status::OK.0 {
                return Reply {
                    status,
                    ..Reply::default()
                };
            }
            match self
                .borrowed
                .lend((collection, index, writable), &tensor, self.channel)
            {
                Ok(lent) => Reply {
                    text: tensor.name.read().unwrap_or_default(),
                    tensor: Some(lent),
                    ..Reply::default()
                },
                Err(message) => refused(message),
            }
        }
    }

    /// Takes a tensor that the hook publishes.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn publish<'r>(
        &mut self,
        (keep, name): (u32, &str),
        form: &TensorForm,
        offset: u64,
        error: &mut ErrorAbi,
    ) -> Reply<'r> {
        if form.shape.len() > DIMENSIONS || form.shape.len() != form.strides.len() {
            return refused("the tensor has too many dimensions");
        }
        let place = self.channel.place(Arena::Given, offset, form.byte_length);
        // Tensors of all element types are aligned to their sizes in the arena.
        let Some(place) = place.filter(|_| offset.is_multiple_of(8)) else {
            return refused("the tensor is not in the memory for tensors");
        };
        let tensor = TensorAbi {
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
        };
        // SAFETY: the context is the host's for this call. The view's arrays have as many numbers as it says, and its memory
        // as many bytes, by the checks above; that it fits its shape is checked by the function, which copies.
        unsafe {
            let replaced = self.lent_of(keep, name);
            let name = TextAbi::new(name);
            let status =
                (self.tables.values.set_tensor)(self.context, keep, name, &raw const tensor, error);
            self.forget_if(status, replaced);
            Reply {
                status,
                ..Reply::default()
            }
        }
    }

    /// Publishes a value.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn set_value(&mut self, keep: u32, name: &str, json: &str, error: &mut ErrorAbi) -> u32 {
        // SAFETY: the context is the host's for this call; texts and error are borrowed for it.
        unsafe {
            let replaced = self.lent_of(keep, name);
            let (name, json) = (TextAbi::new(name), TextAbi::new(json));
            let status = (self.tables.values.set)(self.context, keep, name, json, error);
            self.forget_if(status, replaced);
            status
        }
    }

    /// Removes a published value.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn remove_value(&mut self, name: &str, error: &mut ErrorAbi) -> u32 {
        // SAFETY: the context is the host's for this call; name and error are borrowed for it.
        unsafe {
            let replaced = self.lent_of(Keep::Run as u32, name);
            let status = (self.tables.values.remove)(self.context, TextAbi::new(name), error);
            self.forget_if(status, replaced);
            status
        }
    }

    /// Where the published tensor of a name is, or the checkpoint's, if the hook was lent any of them.
    ///
    /// # Safety
    ///
    /// As for [`answer`](Server::answer).
    unsafe fn lent_of(&self, keep: u32, name: &str) -> Option<(Collection, usize)> {
        let collection = match Keep::from_number(keep)? {
            Keep::Checkpoint => Collection::Checkpoint,
            _ => Collection::Published,
        };
        if !self.borrowed.has_any_of(collection) {
            return None;
        }
        let mut index = 0;
        // SAFETY: the context is the host's for this call, for which the name and room for an index are borrowed.
        let status = unsafe {
            let name = TextAbi::new(name);
            let error = std::ptr::null_mut();
            let find = self.tables.tensors.find;
            find(self.context, collection as u32, name, &raw mut index, error)
        };
        (status == Status::OK.0).then_some((collection, index))
    }

    /// Forgets a tensor that was lent, if what replaces or removes it has succeeded.
    fn forget_if(&mut self, status: u32, replaced: Option<(Collection, usize)>) {
        if let (true, Some((collection, index))) = (status == Status::OK.0, replaced) {
            self.borrowed.forget(collection, index);
        }
    }
}

fn refused(message: &str) -> Reply<'_> {
    Reply {
        status: Status::ERROR.0,
        message,
        ..Reply::default()
    }
}

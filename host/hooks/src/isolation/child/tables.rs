//! The host's functions as this process has them: most ask the parent.

use std::ffi::c_void;
use std::ptr;

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, HostRoot, Status, TextAbi};
use sconce_plugin_api::ext::{
    self, Answer, CTable, Device, DeviceAbi, Forwards, Gpu, HostCall, Loss, LossTable, MetricsCall,
    MetricsLocal, Part, PartAbi, RanksLocal, Refusal, Served, TensorAbi, Threads, Travels, Vectors,
    VectorsAbi,
};

use super::super::message::Ask;
use super::session;
use crate::bridge::{C_TABLE, Passes};
use crate::version::HOST_VERSION;

/// The argument of the host's functions, of which this process needs none: an address that is not null.
pub(super) const CONTEXT: *const c_void = ptr::dangling::<u64>().cast();

/// A hook's own process, as a host: what a hook calls is asked of the run's process, unless it is answered here.
pub(super) struct Child;

// SAFETY: contexts lead to the only value.
unsafe impl Served for Child {
    unsafe fn of<'a>(_context: *const c_void) -> Option<&'a Child> {
        Some(&Child)
    }
}

impl Forwards for Child {
    fn ask<'s, R: Travels<'s>>(&'s self, call: HostCall<'_>) -> R {
        let answer = session::with(|session| {
            let reply = session.ask(&Ask::Host(call));
            R::read(&reply.answer, &mut |text| session.keep_text(text))
        });
        // Another thread, whose calls the host doesn't allow.
        answer.unwrap_or_else(|| {
            let none = Answer {
                status: Status::INVALID.0,
                ..Answer::default()
            };
            R::read(&none, &mut |_| "")
        })
    }

    fn post(&self, call: HostCall<'_>) {
        session::with(|session| session.post(&Ask::Host(call)));
    }
}

impl MetricsLocal for Child {
    fn publish(&self, name: &str, value: f64) -> Result<(), Refusal> {
        let call = HostCall::Metrics(MetricsCall::Publish { name, value });
        // Accepted once, it is accepted again: the host need not be waited for.
        let is_known = session::with(|session| {
            let known = (session.phase, name);
            session.accepted.contains(&known)
        });
        if is_known == Some(true) {
            self.post(call);
            return Ok(());
        }
        self.ask::<Result<(), Refusal>>(call)?;
        session::with(|session| {
            let known = (session.phase, session.keep_text(name));
            session.accepted.insert(known);
        });
        Ok(())
    }
}

impl RanksLocal for Child {
    fn rank(&self) -> u32 {
        session::with(|session| session.ranks.0).unwrap_or(0)
    }

    fn size(&self) -> u32 {
        session::with(|session| session.ranks.1).unwrap_or(1)
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), Refusal> {
        let reply = session::with(|session| session.ask(&Ask::Gather(own)));
        let reply = reply.ok_or_else(|| Refusal::invalid(""))?;
        reply.done()?;
        if reply.bytes.len() != all.len() {
            return Err(Refusal::invalid(format!(
                "there is room for {} bytes, but the ranks gather {}",
                all.len(),
                reply.bytes.len()
            )));
        }
        all.copy_from_slice(&reply.bytes);
        Ok(())
    }
}

/// Addresses on a device are of no use in a process without the run's context there.
impl Device for Child {
    fn facts(&self) -> Result<DeviceAbi, Refusal> {
        Err(Refusal::new(Status::UNSUPPORTED, NO_DEVICE))
    }

    fn tensor(&self, _: u32, _: usize, _: bool) -> Result<TensorAbi, Refusal> {
        Err(Refusal::new(Status::UNSUPPORTED, NO_DEVICE))
    }
}

const NO_DEVICE: &str = "a hook in a process of its own sees copies of tensors alone: addresses of a device's memory don't cross processes";

/// As for a run on the CPU: the GPU is the run's, and its figures are not sent to other processes.
impl Gpu for Child {}

/// The host has waited for the loss before it calls this process: it is in the view, and nothing queries this table.
impl Loss for Child {}

impl Threads for Child {
    fn count(&self) -> u32 {
        session::with(|session| session.threads).unwrap_or(1)
    }

    /// The parts one after the other: the host's threads are in another process, and the training's cores are theirs.
    unsafe fn run(&self, parts: u32, part: PartAbi, data: *const c_void) -> Result<(), Refusal> {
        // SAFETY: the plugin promises that `part` may be called during this call, with `data` alive.
        let part = unsafe { Part::new(part, data) };
        for index in 0..parts {
            // SAFETY: each index below `parts` exactly once.
            unsafe { part.call(index) };
        }
        Ok(())
    }
}

/// Over the copies that the hook was lent, by one thread.
const PASSES: Passes<'static, Child> = Passes {
    host: &Child,
    threads: |_| 1,
};

impl Vectors for Child {
    unsafe fn reduce(
        &self,
        reduction: u32,
        number: f64,
        vectors: &VectorsAbi,
        results: &mut [f64],
    ) -> Result<usize, Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe { PASSES.reduce((reduction, number), vectors, results) }
    }

    unsafe fn change(
        &self,
        change: u32,
        vectors: &VectorsAbi,
        numbers: &[f64],
    ) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe { PASSES.change(change, vectors, numbers) }
    }

    unsafe fn combine(
        &self,
        combination: u32,
        weight: f64,
        onto: &VectorsAbi,
        from: &VectorsAbi,
    ) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe { PASSES.combine((combination, weight), onto, from) }
    }
}

/// The root that the hook receives at its creation.
pub(super) fn root() -> &'static HostRoot {
    static ROOT: Static<HostRoot> = Static(HostRoot {
        abi_epoch: ABI_EPOCH,
        version: TextAbi::new(HOST_VERSION),
        api_version: TextAbi::new(API_VERSION),
        query,
    });
    &ROOT.0
}

struct Static<T>(T);

// SAFETY: `T` is only ever `HostRoot`, which is never written to and whose pointers lead to `'static` data.
unsafe impl<T> Sync for Static<T> {}

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the duration of the call.
    match unsafe { extension.read() } {
        None | Some(LossTable::ID) => ptr::null(),
        Some(CTable::ID) => ptr::from_ref(&C_TABLE).cast(),
        Some(id) => ext::table_of::<Child>(id),
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::ext::LossTable;

    use super::*;
    use crate::bridge::EXTENSIONS;

    #[test]
    fn a_hook_in_a_process_of_its_own_has_every_extension() {
        // The host has waited for the loss before it calls the child: it is in the view.
        for id in EXTENSIONS.into_iter().filter(|id| *id != LossTable::ID) {
            // SAFETY: the text is a literal.
            let table = unsafe { query(TextAbi::new(id)) };
            assert!(!table.is_null(), "{id}");
        }
        // SAFETY: the text is a literal.
        assert!(unsafe { query(TextAbi::new("sconce.none/1")) }.is_null());
    }
}

//! Data that a view carries at some mount points in addition to the counters.

use std::ffi::c_void;
use std::ptr;

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{
    CheckpointAbi, FailureAbi, ModuleAbi, OutcomeAbi, ProfileAbi, ViewAbi,
};

use super::{Dispatcher, HookFault};
use crate::bridge::BridgeState;

/// Data that a mount point's view carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// At `before_save_checkpoint`, `after_save_checkpoint` and `after_load_checkpoint`.
    Checkpoint(&'a CheckpointAbi),
    /// At `on_exception`.
    Failure(&'a FailureAbi),
    /// At `after_run`.
    Outcome(&'a OutcomeAbi),
    /// At `epoch_profile`.
    Profile(&'a ProfileAbi),
    /// At `module_forward` and `module_backward`.
    Module(&'a ModuleAbi),
}

impl Payload<'_> {
    fn pointer(self) -> *const c_void {
        match self {
            Payload::Checkpoint(payload) => ptr::from_ref(payload).cast(),
            Payload::Failure(payload) => ptr::from_ref(payload).cast(),
            Payload::Outcome(payload) => ptr::from_ref(payload).cast(),
            Payload::Profile(payload) => ptr::from_ref(payload).cast(),
            Payload::Module(payload) => ptr::from_ref(payload).cast(),
        }
    }

    /// Runs `call` with this payload in the view, and removes it afterwards.
    fn carried<T>(self, view: &mut ViewAbi, call: impl FnOnce(&mut ViewAbi) -> T) -> T {
        view.payload = self.pointer();
        let result = call(view);
        view.payload = ptr::null();
        result
    }
}

impl Dispatcher {
    /// As [`call`](Dispatcher::call), with a payload.
    pub fn call_with(
        &mut self,
        point: Point,
        payload: Payload<'_>,
        view: &mut ViewAbi,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        payload.carried(view, |view| self.call(point, view, shared))
    }

    /// As [`call_every`](Dispatcher::call_every), with a payload.
    pub fn call_every_with(
        &mut self,
        point: Point,
        payload: Payload<'_>,
        view: &mut ViewAbi,
        shared: &BridgeState<'_>,
    ) -> Vec<HookFault> {
        payload.carried(view, |view| self.call_every(point, view, shared))
    }

    /// Calls the hooks of a point for the task's module with this index.
    pub fn call_module(
        &mut self,
        point: Point,
        (number, module): (usize, &ModuleAbi),
        view: &mut ViewAbi,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        self.module = number;
        self.call_with(point, Payload::Module(module), view, shared)
    }
}

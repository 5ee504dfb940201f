//! Data that a view carries at some mount points in addition to the counters.

use std::ffi::c_void;
use std::ptr;

use sconce_lifecycle::Position;
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{CheckpointAbi, FailureAbi, ModuleAbi, OutcomeAbi, ProfileAbi};

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
    pub(super) fn pointer(self) -> *const c_void {
        match self {
            Payload::Checkpoint(payload) => ptr::from_ref(payload).cast(),
            Payload::Failure(payload) => ptr::from_ref(payload).cast(),
            Payload::Outcome(payload) => ptr::from_ref(payload).cast(),
            Payload::Profile(payload) => ptr::from_ref(payload).cast(),
            Payload::Module(payload) => ptr::from_ref(payload).cast(),
        }
    }
}

impl Dispatcher {
    /// As [`call`](Dispatcher::call), with a payload.
    pub fn call_with(
        &mut self,
        point: Point,
        payload: Payload<'_>,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        self.view.payload = payload.pointer();
        let called = self.call(point, position, shared);
        self.view.payload = ptr::null();
        called
    }

    /// As [`call_every`](Dispatcher::call_every), with a payload.
    pub fn call_every_with(
        &mut self,
        point: Point,
        payload: Payload<'_>,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Vec<HookFault> {
        self.view.payload = payload.pointer();
        let faults = self.call_every(point, position, shared);
        self.view.payload = ptr::null();
        faults
    }

    /// Calls the hooks of a point for the task's module with this index.
    pub fn call_module(
        &mut self,
        point: Point,
        (number, module): (usize, &ModuleAbi),
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        self.module = number;
        self.call_with(point, Payload::Module(module), position, shared)
    }
}

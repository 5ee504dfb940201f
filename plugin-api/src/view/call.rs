//! A single call of a hook: the view and the mount point's payload.

use super::moment::Moment;
use super::{At, Checkpoint, EpochProfile, Failure, Module, Outcome, TaskView};
use crate::abi::{CheckpointAbi, FailureAbi, ModuleAbi, OutcomeAbi, ProfileAbi, ViewAbi};
use crate::ext::Tables;
use crate::{HookError, Result};

/// The arguments of a call, before the mount point decides which method receives them.
#[doc(hidden)]
pub struct Call<'task> {
    abi: &'task ViewAbi,
    tables: &'task Tables,
}

impl<'task> Call<'task> {
    pub(crate) fn new(abi: &'task ViewAbi, tables: &'task Tables) -> Self {
        Call { abi, tables }
    }

    /// The running task at the moment of the call; `#[hook]` calls this for the mount point of that moment.
    #[inline]
    pub fn at<M: Moment>(&self) -> At<'task, M> {
        At::new(TaskView::new(self.abi, self.tables))
    }

    /// The payload of `after_run`.
    pub fn outcome(&self) -> Result<Outcome<'task>> {
        // SAFETY: the payload of `after_run` is an `OutcomeAbi` whose texts live as long as the call;
        // `#[hook]` calls this for that point only.
        unsafe {
            let payload: Option<&'task OutcomeAbi> = self.abi.payload.cast::<OutcomeAbi>().as_ref();
            payload.map(|payload| Outcome::read(payload))
        }
        .ok_or_else(|| HookError::new("the host called `after_run` without an outcome"))
    }

    /// The payload of `epoch_profile`.
    pub fn profile(&self) -> Result<EpochProfile<'task>> {
        // SAFETY: the payload of `epoch_profile` is a `ProfileAbi` that lives as long as the call; `#[hook]`
        // calls this for that point only.
        unsafe {
            let payload: Option<&'task ProfileAbi> = self.abi.payload.cast::<ProfileAbi>().as_ref();
            payload.map(|payload| EpochProfile::read(payload))
        }
        .ok_or_else(|| HookError::new("the host called `epoch_profile` without a profile"))
    }

    /// The payload of `module_forward` and `module_backward`.
    pub fn module(&self) -> Result<Module<'task>> {
        // SAFETY: the payload of these points is a `ModuleAbi` whose texts live as long as the call;
        // `#[hook]` calls this for these points only.
        unsafe {
            let payload: Option<&'task ModuleAbi> = self.abi.payload.cast::<ModuleAbi>().as_ref();
            payload.map(|payload| Module::read(payload, self.abi, self.tables))
        }
        .ok_or_else(|| HookError::new("the host called a module's mount point without a module"))
    }

    /// The payload of the three checkpoint points.
    pub fn checkpoint(&self) -> Result<Checkpoint<'task>> {
        // SAFETY: the payload of these points is a `CheckpointAbi` whose texts live as long as the call;
        // `#[hook]` calls this for these points only.
        unsafe {
            let payload: Option<&'task CheckpointAbi> =
                self.abi.payload.cast::<CheckpointAbi>().as_ref();
            payload.map(|payload| Checkpoint::read(payload))
        }
        .ok_or_else(|| HookError::new("the host called a checkpoint's mount point without one"))
    }

    /// The payload of `on_exception`.
    pub fn failure(&self) -> Result<Failure<'task>> {
        // SAFETY: the payload of `on_exception` is a `FailureAbi` whose texts live as long as the call;
        // `#[hook]` calls this for that point only.
        unsafe {
            let payload: Option<&'task FailureAbi> = self.abi.payload.cast::<FailureAbi>().as_ref();
            payload.map(|payload| Failure::read(payload))
        }
        .ok_or_else(|| HookError::new("the host called `on_exception` without an error"))
    }
}

//! The view of one moment of the run: the common view, and what that moment allows beyond it.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::Serialize;

use super::TaskView;
use super::moment::{self, Moment, Training};
use crate::ext::Keep;
use crate::tensor::{Element, TensorMut};
use crate::{Phase, Result};

/// The running task at the moment `M`: what a mount point hands its hook.
///
/// It is a [`TaskView`], with what the moment allows beyond it. Each mount point has a name for its own, such as
/// [`AfterEpoch`](crate::AfterEpoch). What only some moments allow does not compile at another, and the error says where it
/// is allowed:
///
/// ```compile_fail,E0277
/// use sconce_plugin_api::prelude::*;
///
/// fn after_forward(task: &mut AfterForward<'_>) -> Result<()> {
///     task.checkpoint("best").save()
/// }
/// ```
///
/// A function that several mount points share names what it needs:
///
/// ```
/// use sconce_plugin_api::moment::BetweenIterations;
/// use sconce_plugin_api::prelude::*;
///
/// fn keep(task: &mut At<'_, impl BetweenIterations>, tag: &str) -> Result<()> {
///     task.checkpoint(tag).parameters_only().save()
/// }
///
/// fn after_epoch(task: &mut AfterEpoch<'_>) -> Result<()> {
///     keep(task, "each-epoch")
/// }
/// ```
pub struct At<'task, M> {
    view: TaskView<'task>,
    moment: PhantomData<fn() -> M>,
}

impl<'task, M> Deref for At<'task, M> {
    type Target = TaskView<'task>;

    #[inline]
    fn deref(&self) -> &TaskView<'task> {
        &self.view
    }
}

impl<M> DerefMut for At<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.view
    }
}

impl<'task, M: Moment> At<'task, M> {
    /// The view, at the moment that the caller knows it to be.
    #[inline]
    pub(crate) fn new(view: TaskView<'task>) -> Self {
        At {
            view,
            moment: PhantomData,
        }
    }

    /// The same moment, if it is one of the training; `None` in a validation or test.
    ///
    /// Some requests are allowed in training alone:
    ///
    /// ```
    /// use sconce_plugin_api::prelude::*;
    ///
    /// fn after_epoch(task: &mut AfterEpoch<'_>) -> Result<()> {
    ///     let Some(mut task) = task.in_training() else {
    ///         return Ok(());
    ///     };
    ///     if task.loss().is_some_and(f64::is_nan) {
    ///         task.checkpoint("best").roll_back()?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn in_training(&mut self) -> Option<At<'_, Training<M>>> {
        (self.phase() == Phase::Train).then(|| At::new(self.view.reborrow()))
    }
}

/// What changes what is published, here as well as in [`TaskView`]: a call through `DerefMut` could not read from the task
/// for its arguments.
impl<M: Moment> At<'_, M> {
    /// See [`TaskView::publish`].
    #[track_caller]
    #[inline]
    pub fn publish<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
        keep: Keep,
    ) -> Result<()> {
        self.view.publish(name, value, keep)
    }

    /// See [`TaskView::publish_tensor`].
    #[track_caller]
    #[inline]
    pub fn publish_tensor<T: Element>(
        &mut self,
        name: &str,
        shape: &[usize],
        elements: &[T],
        keep: Keep,
    ) -> Result<()> {
        self.view.publish_tensor(name, shape, elements, keep)
    }

    /// See [`TaskView::published_tensor_mut`].
    #[track_caller]
    #[inline]
    pub fn published_tensor_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.view.published_tensor_mut(name)
    }

    /// See [`TaskView::retract`].
    #[track_caller]
    #[inline]
    pub fn retract(&mut self, name: &str) -> Result<()> {
        self.view.retract(name)
    }
}

impl<'view> At<'view, moment::Any> {
    /// The view with all that some moment allows, whether this one does or not: the host alone checks.
    ///
    /// For the runtimes of other languages, whose hooks can't be checked when they are compiled, and for tests of the host.
    pub fn any(task: &'view mut TaskView<'_>) -> Self {
        At::new(task.reborrow())
    }
}

macro_rules! names {
    ($($moment:ident $method:literal,)*) => {
        $(
            #[doc = concat!("The running task at [`", $method, "`](crate::Hook::", $method, ").")]
            pub type $moment<'task> = At<'task, moment::$moment>;
        )*
    };
}

names! {
    BeforeRun "before_run",
    AfterRun "after_run",
    BeforeLoop "before_loop",
    AfterLoop "after_loop",
    BeforeEpoch "before_epoch",
    AfterEpoch "after_epoch",
    AfterCycle "after_cycle",
    BeforeIter "before_iter",
    AfterIter "after_iter",
    AfterForward "after_forward",
    AfterLoss "after_loss",
    AfterBackward "after_backward",
    BeforeUpdate "before_update",
    AfterUpdate "after_update",
    ModuleForward "module_forward",
    ModuleBackward "module_backward",
    BeforeSaveCheckpoint "before_save_checkpoint",
    AfterSaveCheckpoint "after_save_checkpoint",
    AfterLoadCheckpoint "after_load_checkpoint",
    OnException "on_exception",
}

/// The running task at [`epoch_profile`](crate::Hook::epoch_profile).
pub type AtEpochProfile<'task> = At<'task, moment::EpochProfile>;

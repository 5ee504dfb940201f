//! The [`Hook`] trait, which every hook implements.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{
    AfterBackward, AfterCycle, AfterEpoch, AfterForward, AfterIter, AfterLoadCheckpoint, AfterLoop,
    AfterLoss, AfterRun, AfterSaveCheckpoint, AfterUpdate, AtEpochProfile, BeforeEpoch, BeforeIter,
    BeforeLoop, BeforeRun, BeforeSaveCheckpoint, BeforeUpdate, Checkpoint, EpochProfile, Failure,
    Module, ModuleBackward, ModuleForward, OnException, Outcome, Result, Setup,
};

/// An object that the host calls at mount points of a run.
///
/// Put [`#[hook(…)]`](macro@crate::hook) on the `impl` block and list the type in
/// [`export_plugin!`](crate::export_plugin). Write only the methods you need: the attribute records which
/// methods the block contains, and the host never calls the others, so unused mount points cost nothing.
///
/// The items fall into three groups: **creation** ([`Config`](Hook::Config), [`new`](Hook::new)), **state**
/// ([`save_state`](Hook::save_state), [`load_state`](Hook::load_state), [`state_restored`](Hook::state_restored)) and **mount
/// points**, listed in the order of a run.
///
/// # Rules for all methods
///
/// - Methods are called on the training thread, one at a time.
///   [`TaskView::threads`](crate::TaskView::threads) gives access to the host's other threads for expensive
///   work.
/// - Where several processes train together, a hook runs on the first rank alone unless its attribute says
///   `ranks = "all"`. One that changes parameters, gradients or batches must; one that counts batches should
///   ([`TaskView::ranks`](crate::TaskView::ranks)).
/// - Hooks at the same point run in order of priority, lowest number first; hooks of equal priority run in
///   the manifest's order.
/// - An error or a panic is reported with the hook, its file, the mount point, epoch and iteration. The
///   manifest's `on_error` says what happens next: `fail` ends the run through `on_exception` and
///   `after_run`, `disable` continues without the hook, `ignore` continues with it.
/// - Requests (a stop, a save, a validation) are served after all hooks of the point have run; learning rates
///   and momentum take effect immediately. A request that is not legal at a point returns an error that lists
///   the points where it is.
///
/// # What may be requested where
///
/// Metrics, values and tensors may be published at every point. A stop and everything below may be requested, and
/// tensors changed in place, where this table says, which is generated from
/// [`Request::is_legal_at`](crate::ext::Request::is_legal_at):
///
#[doc = include_str!("ext/requests/legal.md")]
///
/// # Examples
///
/// **A stateful hook.** Its counters are stored in checkpoints and restored from them:
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// /// Stops when the validation loss has not improved for three epochs.
/// struct Patience {
///     best: Option<f64>,
///     waited: u32,
/// }
///
/// #[hook(name = "patience", about = "Stops when nothing improves.", priority = LOWEST, state = [best, waited])]
/// impl Hook for Patience {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(Patience { best: None, waited: 0 })
///     }
///
///     fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
///         let Some(loss) = task.metric_of(Phase::Val, "loss") else {
///             return Ok(());
///         };
///         if self.best.is_none_or(|best| loss < best) {
///             (self.best, self.waited) = (Some(loss), 0);
///             return task.checkpoint("best").save();
///         }
///         self.waited += 1;
///         if self.waited >= 3 { task.stop("nothing improves") } else { Ok(()) }
///     }
/// }
/// # export_plugin!(Patience);
/// # fn main() {}
/// ```
///
/// **A module hook.** It is called for every named layer, forward and backward; the manifest's `modules`
/// selects some of them (`"modules": ["act*"]`):
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// /// Warns of layers whose outputs are all zero.
/// struct DeadLayers;
///
/// #[hook(name = "dead-layers", about = "Warns of dead layers.")]
/// impl Hook for DeadLayers {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(DeadLayers)
///     }
///
///     fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
///         if module.output()?.elements::<f32>()?.all(|value| value == 0.0) {
///             task.warn(format_args!("`{}` ({}) is dead", module.name(), module.kind()));
///         }
///         Ok(())
///     }
/// }
/// # export_plugin!(DeadLayers);
/// # fn main() {}
/// ```
///
/// **A hook that edits gradients** in place, in the host's memory:
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// /// Clips the gradients to a norm of 1.
/// struct Clip;
///
/// #[hook(name = "clip", about = "Clips gradients.", publishes = ["grad_norm"], ranks = "all")]
/// impl Hook for Clip {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(Clip)
///     }
///
///     fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
///         let mut squares = 0.0;
///         for gradient in task.gradients() {
///             squares += gradient.elements::<f32>()?.map(|g| f64::from(g * g)).sum::<f64>();
///         }
///         let norm = squares.sqrt();
///         task.publish_metric("grad_norm", norm)?;
///         if norm <= 1.0 {
///             return Ok(());
///         }
///         let factor = (1.0 / norm) as f32;
///         task.for_each_gradient(|mut gradient| gradient.map::<f32>(|g| g * factor))
///     }
/// }
/// # export_plugin!(Clip);
/// # fn main() {}
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a hook",
    note = "write `#[hook(name = \"…\", about = \"…\")] impl Hook for {Self} {{ … }}`"
)]
pub trait Hook: Send + Sized + 'static {
    /// Configuration type, deserialised from `config` in the manifest entry.
    ///
    /// Use [`NoConfig`] for a hook without one; omitting the type from a `#[hook]` block does the same.
    type Config: DeserializeOwned + JsonSchema;

    /// Creates the hook, once per manifest entry, before training begins.
    ///
    /// A hook that is listed twice gives two independent instances. The host has already checked the
    /// configuration against the type's JSON Schema, including ranges; only constraints that a schema cannot
    /// express are left to check.
    ///
    /// # Errors
    ///
    /// An error rejects the manifest entry: the run does not start.
    fn new(config: Self::Config, setup: &Setup<'_>) -> Result<Self>;

    /// Returns the hook's state, to be stored in a checkpoint. Default: no bytes.
    ///
    /// It holds all that [`load_state`](Hook::load_state) needs to continue as if uninterrupted. For most hooks the attribute
    /// writes both methods (`state = [best, waited]`, see [`state`](crate::state)).
    fn save_state(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Restores a state that [`save_state`](Hook::save_state) wrote, possibly in an older version of this hook.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// Checks the fields named in `state = …`, which have been restored, and updates those that depend on them.
    ///
    /// Checkpoints may come from anywhere: refuse what no run saves ([`state`](crate::state)).
    ///
    /// # Errors
    ///
    /// An error refuses the state: the fields named in `state = …` get their values back. Change others after the last
    /// check.
    fn state_restored(&mut self) -> Result<()> {
        Ok(())
    }

    /// Once, first: model and data are there, nothing has been trained yet.
    ///
    /// A point between iterations; parameters may be changed.
    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before the whole training, each validation and the test; see [`TaskView::phase`](crate::TaskView::phase).
    ///
    /// A point between iterations; parameters may be changed, batch-norm statistics recomputed, and in training a
    /// validation requested.
    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before each pass over a phase's data.
    ///
    /// A point between iterations; parameters may be changed, batch-norm statistics recomputed, and in training a
    /// validation or a rollback requested.
    ///
    /// Called again for a training epoch that was started before a resume or a rollback, with the counters
    /// with which the epoch began. Changes and requests made in that call are ignored, as they took effect
    /// when the epoch first began; only `delete_checkpoint` and `listen_at_modules` are served.
    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before each batch; its inputs and targets are available.
    ///
    /// A point between iterations; the inputs may be changed and the batch skipped.
    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After the forward pass: the batch's outputs are available, its loss is not.
    ///
    /// The outputs may be changed, and tensors published that the task's loss reads.
    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After the loss and metrics of the batch are computed; in training, before the backward pass.
    ///
    /// In training the loss may be scaled and the update skipped.
    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After a named module's forward pass, in any phase, before [`after_forward`](Hook::after_forward).
    ///
    /// The module's input, output and parameters can be read; nothing may be changed. The manifest's
    /// `modules` selects the modules for which the hook is called; default: all.
    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        let _ = (task, module);
        Ok(())
    }

    /// Training only: the gradients of a named module are available.
    ///
    /// Called for each module after the backward pass and before [`after_backward`](Hook::after_backward),
    /// last module first. The module's input and output and their gradients can be read; nothing may be
    /// changed.
    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        let _ = (task, module);
        Ok(())
    }

    /// Training only: after the batch's backward pass; parameters are unchanged.
    ///
    /// With gradient accumulation it is called for each micro-batch. The gradients may be changed and the
    /// update skipped.
    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Training only: gradients of all micro-batches are summed; the optimizer is about to step.
    ///
    /// The gradients may be changed, learning rates and momentum set, and the update skipped.
    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Training only: after the optimizer step, already counted by [`TaskView::update`](crate::TaskView::update).
    ///
    /// The parameters may be changed.
    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After each batch, already counted by [`TaskView::iteration`](crate::TaskView::iteration) and [`TaskView::batch`](crate::TaskView::batch).
    ///
    /// A point between iterations; parameters may be changed, and in training batch-norm statistics recomputed and a
    /// validation or a rollback requested.
    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After each pass over a phase's data: the phase's metrics are final.
    ///
    /// For training it comes before that epoch's validation, and also when a stop has cut the epoch short
    /// ([`TaskView::is_whole`](crate::TaskView::is_whole) is then false). Allowed: as at [`after_iter`](Hook::after_iter); batch-norm
    /// statistics may be recomputed in any phase.
    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After a training epoch and, if one was due, its validation: all metrics of the epoch are final.
    ///
    /// Allowed: as at [`after_iter`](Hook::after_iter).
    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After the whole training, each validation and the test.
    ///
    /// A point between iterations; parameters may be changed, batch-norm statistics recomputed, and in training a
    /// validation requested.
    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Directly after `after_epoch` of the same pass: timings of that pass. Nothing may be changed.
    fn epoch_profile(
        &mut self,
        task: &mut AtEpochProfile<'_>,
        profile: &EpochProfile<'_>,
    ) -> Result<()> {
        let _ = (task, profile);
        Ok(())
    }

    /// Before a checkpoint is saved; the states of all hooks are collected afterwards.
    ///
    /// Entries may be added to the checkpoint ([`At::add_to_checkpoint`](crate::At::add_to_checkpoint)).
    fn before_save_checkpoint(
        &mut self,
        task: &mut BeforeSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// After a checkpoint was saved, or failed to be saved; [`Checkpoint::error`] has the reason.
    ///
    /// Checkpoints may be deleted, copied or published; nothing may be changed.
    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// Parameters, optimizer, counters and the states of all hooks have been restored from a checkpoint.
    ///
    /// Parameters may be changed, learning rates and momentum set, and it may be chosen whether module hooks
    /// are called.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// An error ends the run; `after_run` follows. Nothing may be changed or requested.
    fn on_exception(&mut self, task: &mut OnException<'_>, failure: &Failure<'_>) -> Result<()> {
        let _ = (task, failure);
        Ok(())
    }

    /// Once, last, with the outcome: the run completed, was stopped, was interrupted or failed.
    ///
    /// Called for **every** hook if `before_run` was. Nothing may be changed or requested.
    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let _ = (task, outcome);
        Ok(())
    }
}

/// Configuration of a hook without options: an empty object.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// The part of a hook kind that [`#[hook]`](macro@crate::hook) generates: metadata and dispatch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no hook metadata",
    label = "not a hook kind",
    note = "put `#[hook(name = \"…\", about = \"…\")]` on its `impl Hook for {Self}` block"
)]
pub trait HookKind: Hook {
    /// Name of the hook kind, as manifests use it.
    const NAME: &'static str;

    /// A [`HookMetadata`](crate::metadata::HookMetadata) as JSON.
    const METADATA: &'static str;

    /// Calls the method of a mount point; does nothing for points that the hook doesn't override.
    #[doc(hidden)]
    fn dispatch(&mut self, point: u32, call: &mut crate::export::Call<'_>) -> Result<()>;
}

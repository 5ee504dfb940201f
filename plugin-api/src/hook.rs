//! The [`Hook`] trait: what an author writes.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Checkpoint, EpochProfile, Failure, Module, Outcome, Result, Setup, TaskView};

/// An object that the host calls at mount points of a run.
///
/// Put [`#[hook(…)]`](macro@crate::hook) on the `impl` block and list the type in
/// [`export_plugin!`](crate::export_plugin). Write only the methods you need: the attribute reads
/// off the block which ones are there, and the host never calls the others, so that a mount point
/// nobody uses costs nothing.
///
/// The items fall into three groups: **creation** ([`Config`](Hook::Config), [`new`](Hook::new)),
/// **state** ([`save_state`](Hook::save_state), [`load_state`](Hook::load_state)) and **mount
/// points**, in the order of a run.
///
/// For every method:
/// - It is called on the training thread, never on two at once. [`TaskView::threads`](crate::TaskView::threads)
///   has the others for work that is large.
/// - Hooks at the same point run by priority, lower first; equal ones in the manifest's order.
/// - An error or a panic is reported with the hook, its file, the mount point, epoch and iteration.
///   What happens then is the manifest's choice (`on_error`): `fail` ends the run through
///   `on_exception` and `after_run`, `disable` goes on without the hook, `ignore` goes on with it.
/// - What is asked for (a stop, a save, a validation) is served after all hooks of the point have
///   run; a learning rate holds at once. What is not legal at a point is an error that says where
///   it is.
///
/// # Examples
///
/// **A stateful hook.** What it remembers goes into checkpoints and comes back with them:
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
/// #[hook(name = "patience", about = "Stops when nothing improves.", priority = LOWEST)]
/// impl Hook for Patience {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(Patience { best: None, waited: 0 })
///     }
///
///     fn after_cycle(&mut self, task: &mut TaskView<'_>) -> Result<()> {
///         let Some(loss) = task.metric_of(Phase::Val, "loss") else {
///             return Ok(());
///         };
///         if self.best.is_none_or(|best| loss < best) {
///             (self.best, self.waited) = (Some(loss), 0);
///             return task.save_checkpoint("best");
///         }
///         self.waited += 1;
///         if self.waited >= 3 { task.stop("nothing improves") } else { Ok(()) }
///     }
///
///     fn save_state(&mut self) -> Result<Vec<u8>> {
///         state::to_bytes(&(self.best, self.waited))
///     }
///
///     fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
///         (self.best, self.waited) = state::from_bytes(bytes)?;
///         Ok(())
///     }
/// }
/// # export_plugin!(Patience);
/// # fn main() {}
/// ```
///
/// **A module hook.** It sees every named layer, forward and backward; the manifest's `modules`
/// chooses some (`"modules": ["act*"]`):
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
///     fn module_forward(&mut self, task: &mut TaskView<'_>, module: &Module<'_>) -> Result<()> {
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
/// **A hook that edits gradients**, in the host's memory:
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// /// Clips the gradients to a norm of 1.
/// struct Clip;
///
/// #[hook(name = "clip", about = "Clips gradients.", publishes = ["grad_norm"])]
/// impl Hook for Clip {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(Clip)
///     }
///
///     fn before_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
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
    /// The configuration: what stands under `config` in the manifest entry. Use [`NoConfig`] where
    /// there is none (leaving the type out of a `#[hook]` block says that too).
    type Config: DeserializeOwned + JsonSchema;

    /// Creates the hook. Once per manifest entry, before anything is trained; the same library
    /// listed twice gives two independent hooks. The host has checked the configuration against
    /// the type's JSON Schema, ranges included: only what a schema can't say is left to check.
    ///
    /// # Errors
    ///
    /// Refuses the manifest entry: the run does not start.
    fn new(config: Self::Config, setup: &Setup<'_>) -> Result<Self>;

    /// The hook's state, for checkpoints: whatever [`load_state`](Hook::load_state) needs to go on
    /// as if nothing had happened. [`state::to_bytes`](crate::state::to_bytes) helps.
    fn save_state(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Restores a state that [`save_state`](Hook::save_state) wrote, also one of an older version
    /// of this hook.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// Once, first: model and data are there, nothing has been trained.
    /// May set learning rates, change parameters, save a checkpoint.
    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before the whole training, each validation, the test (see [`TaskView::phase`]).
    /// May set learning rates, change or swap parameters, save a checkpoint.
    fn before_loop(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before each pass over a phase's data. May set learning rates, change or swap parameters, save a
    /// checkpoint, and in training validate or roll back.
    ///
    /// Called again for a training epoch that was begun before a resume or a roll back
    /// ([`batch`](TaskView::batch) is then above 0): what the hook changes of the run or asks for is passed over,
    /// as it was done when the epoch began.
    fn before_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Before each batch; its inputs and targets exist. May change the inputs, skip the batch, set
    /// learning rates, save a checkpoint.
    fn before_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// The batch's outputs exist, its loss does not. May change the outputs, and publish tensors that
    /// the task's loss reads.
    fn after_forward(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// The batch's loss and metrics exist. May scale the loss and skip the update.
    fn after_loss(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// A named module of the model has run: in any phase, within the forward pass, before
    /// [`after_forward`](Hook::after_forward). Its input, output and parameters can be read;
    /// nothing may be changed. The manifest's `modules` says for which modules the hook is called;
    /// default: for all.
    fn module_forward(&mut self, task: &mut TaskView<'_>, module: &Module<'_>) -> Result<()> {
        let _ = (task, module);
        Ok(())
    }

    /// Training only: a named module's gradients exist. Called for each module after the backward
    /// pass and before [`after_backward`](Hook::after_backward), the last module first; the
    /// gradients of its output and input can be read, and both themselves; nothing may be changed.
    fn module_backward(&mut self, task: &mut TaskView<'_>, module: &Module<'_>) -> Result<()> {
        let _ = (task, module);
        Ok(())
    }

    /// Training only: the batch's gradients exist, parameters are unchanged. Under accumulation
    /// called for each micro-batch. May change the gradients and skip the update.
    fn after_backward(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Training only: the gradients of all micro-batches are summed up, the optimizer is about to
    /// step. May change the gradients, set learning rates and skip the update.
    fn before_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// Training only: the parameters have been stepped; [`TaskView::update`] counts it. May change the
    /// parameters.
    fn after_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After each batch; [`TaskView::iteration`] and [`TaskView::batch`] count it. May set learning
    /// rates, change parameters, save a checkpoint, and in training validate or roll back.
    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After each pass over a phase's data: its metrics are final. For training it comes before
    /// that epoch's validation, and also when a stop has broken the epoch off
    /// ([`TaskView::is_whole`]). May do what [`after_iter`](Hook::after_iter) may.
    fn after_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// A training epoch and, where due, its validation are both over: all metrics of this epoch
    /// are final. May do what [`after_iter`](Hook::after_iter) may.
    fn after_cycle(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After the whole training, each validation, the test. May set learning rates, change or swap
    /// parameters, save a checkpoint.
    fn after_loop(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let _ = task;
        Ok(())
    }

    /// After `after_epoch` of the same pass: where its time went. Nothing may be changed.
    fn epoch_profile(&mut self, task: &mut TaskView<'_>, profile: &EpochProfile<'_>) -> Result<()> {
        let _ = (task, profile);
        Ok(())
    }

    /// A checkpoint is about to be saved; the states of all hooks are taken after this. May add
    /// entries to it ([`TaskView::add_to_checkpoint`]).
    fn before_save_checkpoint(
        &mut self,
        task: &mut TaskView<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// A checkpoint was saved, or could not be: [`Checkpoint::error`] says so. Nothing may be
    /// changed.
    fn after_save_checkpoint(
        &mut self,
        task: &mut TaskView<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// Parameters, optimizer, counters and the states of all hooks are back from a checkpoint. May
    /// change parameters and set the learning rate.
    fn after_load_checkpoint(
        &mut self,
        task: &mut TaskView<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let _ = (task, checkpoint);
        Ok(())
    }

    /// An error ends the run; `after_run` follows.
    fn on_exception(&mut self, task: &mut TaskView<'_>, failure: &Failure<'_>) -> Result<()> {
        let _ = (task, failure);
        Ok(())
    }

    /// Once, last, with the outcome: called for **every** hook once `before_run` has been, whether
    /// the run completed, was stopped or failed.
    fn after_run(&mut self, task: &mut TaskView<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let _ = (task, outcome);
        Ok(())
    }
}

/// The configuration of a hook that has none: an empty object.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// What [`#[hook]`](macro@crate::hook) adds to a [`Hook`]: its metadata, and the way from a mount
/// point's number to the method.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no hook metadata",
    label = "not a hook kind",
    note = "put `#[hook(name = \"…\", about = \"…\")]` on its `impl Hook for {Self}` block"
)]
pub trait HookKind: Hook {
    /// The name that manifests use.
    const NAME: &'static str;

    /// A [`HookMetadata`](crate::metadata::HookMetadata) as JSON.
    const METADATA: &'static str;

    /// Calls the method of a mount point; nothing for points that the hook doesn't override.
    #[doc(hidden)]
    fn dispatch(&mut self, point: u32, call: &mut crate::export::Call<'_>) -> Result<()>;
}

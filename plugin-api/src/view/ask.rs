//! What a hook may ask of the run. The host serves requests after all hooks of the point have run.

use super::TaskView;
use crate::abi::{ErrorAbi, TextAbi};
use crate::export::outcome;
use crate::ext::{Request, RequestsTable};
use crate::{Error, Result};

impl TaskView<'_> {
    /// Asks the run to stop after this training iteration, with a reason for the user. A validation
    /// or test under way is finished first, so that its metrics are whole; the final test still
    /// runs. The first reason counts. Legal everywhere but at `after_run` and `on_exception`.
    #[track_caller]
    pub fn stop(&mut self, reason: &str) -> Result<()> {
        self.request(Request::Stop, 0.0, reason)
    }

    /// Asks the run to stop after this epoch and its validation, with a reason for the user.
    /// Legal where [`stop`](TaskView::stop) is.
    #[track_caller]
    pub fn stop_after_epoch(&mut self, reason: &str) -> Result<()> {
        self.request(Request::StopAfterEpoch, 0.0, reason)
    }

    /// Leaves this batch out: no forward pass, no metrics, and in training no gradients. It counts
    /// as an iteration all the same. Legal at `before_iter`.
    #[track_caller]
    pub fn skip_batch(&mut self) -> Result<()> {
        self.request(Request::SkipBatch, 0.0, "")
    }

    /// Leaves the update out to which this batch belongs; its gradients are dropped. Legal at
    /// `after_loss(train)`, `after_backward` and `before_update`.
    #[track_caller]
    pub fn skip_update(&mut self) -> Result<()> {
        self.request(Request::SkipUpdate, 0.0, "")
    }

    /// Sets the optimizer's learning rate: finite and not negative. It holds at once and stays.
    /// A parameter group with a `learning_rate_scale` gets it times its scale. Legal at
    /// `before_run`, around loops, epochs and iterations, at `after_cycle`, `before_update` and
    /// `after_load_checkpoint`.
    #[track_caller]
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        self.request(Request::SetLearningRate, learning_rate, "")
    }

    /// Sets the learning rate of one parameter group, whatever its scale. Legal where
    /// [`set_learning_rate`](TaskView::set_learning_rate) is.
    ///
    /// # Errors
    ///
    /// Where there is no such group; the error has the nearest name.
    #[track_caller]
    pub fn set_learning_rate_of(&mut self, group: &str, learning_rate: f64) -> Result<()> {
        self.request(Request::SetLearningRate, learning_rate, group)
    }

    /// Sets the optimizer's momentum, from 0 to below 1: of SGD and RMSprop the momentum, of Adam,
    /// AdamW and Lion the first beta. It holds at once and stays, and checkpoints keep it. Legal where
    /// [`set_learning_rate`](TaskView::set_learning_rate) is. Since 1.2.
    ///
    /// # Errors
    ///
    /// Where the optimizer has no momentum: RMSprop that was configured without.
    #[track_caller]
    pub fn set_momentum(&mut self, momentum: f64) -> Result<()> {
        self.request(Request::SetMomentum, momentum, "")
    }

    /// Sets the momentum of one parameter group, as [`set_momentum`](TaskView::set_momentum) does.
    /// Since 1.2.
    ///
    /// # Errors
    ///
    /// Where there is no such group too; the error has the nearest name.
    #[track_caller]
    pub fn set_momentum_of(&mut self, group: &str, momentum: f64) -> Result<()> {
        self.request(Request::SetMomentum, momentum, group)
    }

    /// Freezes a parameter or buffer after all hooks of this point have run: the optimizer leaves
    /// it, its moments and its weight decay alone, and it has no gradient any more. A batch norm one
    /// of whose running statistics is frozen normalises by these also in training, and they stay.
    /// Checkpoints keep what is frozen. Legal where
    /// [`save_checkpoint`](TaskView::save_checkpoint) is. Since 1.2.
    ///
    /// # Errors
    ///
    /// Where there is no such parameter or buffer; the error has the nearest name.
    #[track_caller]
    pub fn freeze(&mut self, parameter: &str) -> Result<()> {
        self.request(Request::Freeze, 0.0, parameter)
    }

    /// Trains a parameter or buffer again that was [frozen](TaskView::freeze): from the state that it
    /// was left in, a parameter at a share of its group's learning rate, above 0; a buffer's is 1.
    /// Legal where [`freeze`](TaskView::freeze) is. Since 1.2.
    #[track_caller]
    pub fn unfreeze(&mut self, parameter: &str, learning_rate_share: f64) -> Result<()> {
        if learning_rate_share.is_nan() || learning_rate_share <= 0.0 {
            return Err(Error::new(format_args!(
                "`{parameter}` is to be trained at a share of the learning rate that is above 0, \
                 found {learning_rate_share}"
            )));
        }
        self.request(Request::Freeze, learning_rate_share, parameter)
    }

    /// Adds the gradients of so many batches (at least 1) up for an update, instead of
    /// `train.accumulate`. It holds from the next update on, one that is half done is finished as it
    /// was begun; it stays, and checkpoints keep it. Legal where
    /// [`save_checkpoint`](TaskView::save_checkpoint) is. Since 1.2.
    #[track_caller]
    pub fn set_accumulation(&mut self, batches: u64) -> Result<()> {
        self.request(Request::SetAccumulation, batches as f64, "")
    }

    /// Computes the running means and variances of all batch norms anew, after all hooks of this
    /// point have run: from forward passes in training mode over so many training samples (0, or
    /// more than there are: over all), in the order of the epoch that comes next and with the
    /// parameters as they are then, also where they are [swapped](TaskView::swap_parameters). What
    /// comes out are the mean and the (biased) variance of all these samples together. No hook is
    /// called meanwhile, no other number of the run changes, and statistics that are
    /// [frozen](TaskView::freeze) stay. Legal around loops and epochs, at `after_cycle`, and at
    /// `after_iter(train)`. Since 1.2.
    ///
    /// # Errors
    ///
    /// Of this hook, after the point: where the model has no buffers.
    #[track_caller]
    pub fn renew_statistics(&mut self, samples: u64) -> Result<()> {
        self.request(Request::RenewStatistics, samples as f64, "")
    }

    /// Multiplies this batch's loss by a finite number before its gradients are computed; the loss
    /// that is reported stays as it is, and several hooks' factors multiply. Whoever scales to keep
    /// small gradients from vanishing divides them at `before_update`. Legal at
    /// `after_loss(train)`.
    #[track_caller]
    pub fn scale_loss(&mut self, factor: f64) -> Result<()> {
        self.request(Request::ScaleLoss, factor, "")
    }

    /// Saves a checkpoint as the directory `checkpoints/TAG` in the run directory, after all hooks of
    /// this point have run: parameters, optimizer, counters, metrics, and the states of all hooks. One
    /// of that tag is replaced in one step. In the midst of a validation or the test it waits for
    /// the end of that. A save that fails (a full disk) is a warning, and `after_save_checkpoint`
    /// tells it.
    ///
    /// Legal between iterations: at `before_run`, around loops, epochs and iterations, at
    /// `after_cycle`, in any phase.
    ///
    /// # Errors
    ///
    /// Where the tag has other characters than letters, digits, `-`, `_` and `.`, begins with a
    /// dot, is longer than 128 bytes, or is `latest`, which always leads to the last checkpoint.
    #[track_caller]
    pub fn save_checkpoint(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveCheckpoint, 0.0, tag)
    }

    /// Saves a checkpoint of the parameters alone: a third of the size where the optimizer keeps two
    /// numbers for each parameter. Nobody can go back to it, only load its parameters
    /// ([`load_parameters`](TaskView::load_parameters), or `sconce eval` and `predict`). In all else
    /// as [`save_checkpoint`](TaskView::save_checkpoint).
    #[track_caller]
    pub fn save_parameters(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveCheckpoint, 1.0, tag)
    }

    /// Saves a checkpoint as [`save_checkpoint`](TaskView::save_checkpoint) does, but the training goes
    /// on while it is written: it waits for a copy in memory alone. One checkpoint is written at a time:
    /// the next save waits for the one before, and so do requests that concern checkpoints, a roll back,
    /// and the training's end. `after_save_checkpoint` comes at such a moment, and not when the disk
    /// happens to be done, so that a run stays the same to the bit. Until then a power failure leaves
    /// the checkpoint before. A host before 1.2 refuses it.
    #[track_caller]
    pub fn save_in_background(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveInBackground, 0.0, tag)
    }

    /// Saves the parameters alone ([`save_parameters`](TaskView::save_parameters)) while the training
    /// goes on ([`save_in_background`](TaskView::save_in_background)).
    #[track_caller]
    pub fn save_parameters_in_background(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveInBackground, 1.0, tag)
    }

    /// Deletes the checkpoint of this tag, if there is one: what keeps the last few asks for it.
    /// Legal where [`save_checkpoint`](TaskView::save_checkpoint) is, and at
    /// `after_save_checkpoint`: delete the older one there, when the newer one is safe. Requests of
    /// one point are served in the order of asking.
    #[track_caller]
    pub fn delete_checkpoint(&mut self, tag: &str) -> Result<()> {
        self.request(Request::DeleteCheckpoint, 0.0, tag)
    }

    /// Gives the checkpoint `from` a second tag, in one step and without writing it again where the
    /// disk knows hard links. Legal where [`delete_checkpoint`](TaskView::delete_checkpoint) is.
    #[track_caller]
    pub fn copy_checkpoint(&mut self, from: &str, to: &str) -> Result<()> {
        self.request(Request::CopyCheckpoint, 0.0, &format!("{from}/{to}"))
    }

    /// Writes the parameters of the checkpoint `tag` to
    /// `published/NAME-HASH.safetensors`, under their plain names and with nothing else: a file to
    /// give away. HASH are the first eight digits of its SHA-256. With a set, the tensors that the
    /// checkpoint has under `SET/PARAMETER` go in the place of its parameters (averages, say). A
    /// file of that name and another hash is replaced. Legal where
    /// [`delete_checkpoint`](TaskView::delete_checkpoint) is.
    #[track_caller]
    pub fn publish_weights(&mut self, tag: &str, name: &str, set: Option<&str>) -> Result<()> {
        let text = match set {
            Some(set) => format!("{tag}/{name}/{set}"),
            None => format!("{tag}/{name}"),
        };
        self.request(Request::PublishWeights, 0.0, &text)
    }

    /// Takes the parameters and buffers from the checkpoint of this tag, after all hooks of this
    /// point have run; optimizer, counters, metrics and hooks stay as they are. So the best model is
    /// there at the end. With a set, the tensors that the checkpoint has under `SET/PARAMETER` go in the place
    /// of its parameters. Legal where [`save_checkpoint`](TaskView::save_checkpoint) is.
    #[track_caller]
    pub fn load_parameters(&mut self, tag: &str, set: Option<&str>) -> Result<()> {
        let text = match set {
            Some(set) => format!("{tag}/{set}"),
            None => tag.to_owned(),
        };
        self.request(Request::LoadParameters, 0.0, &text)
    }

    /// Validates after all hooks of this point have run, with all mount points of a validation.
    /// Nothing happens where there is no validation data. Legal in training at `after_iter`, and
    /// around epochs and the loop.
    #[track_caller]
    pub fn validate_now(&mut self) -> Result<()> {
        self.request(Request::Validate, 0.0, "")
    }

    /// Goes back to the checkpoint of this tag after all hooks of this point have run: parameters,
    /// optimizer, learning rates, counters, metrics and the states of all hooks are what they were,
    /// `after_load_checkpoint` is called, and the training goes on from there. The epoch under way
    /// is left without `after_epoch`; the one that the checkpoint lies in begins with
    /// `before_epoch`, behind the batches that it had already done.
    ///
    /// A hook that counts its own roll backs must keep that number out of its state. Legal in
    /// training at `after_iter`, `before_epoch`, `after_epoch` and `after_cycle`.
    #[track_caller]
    pub fn roll_back(&mut self, tag: &str) -> Result<()> {
        self.request(Request::RollBack, 0.0, tag)
    }

    /// Puts the published tensors `SET/PARAMETER` in the place of the parameters of that name,
    /// after all hooks of this point have run: a hook that keeps averages evaluates them in that
    /// way. Checkpoints go on saving the real parameters. They must be back
    /// ([`swap_back`](TaskView::swap_back)) before the next training batch.
    ///
    /// Legal where [`save_checkpoint`](TaskView::save_checkpoint) is.
    #[track_caller]
    pub fn swap_parameters(&mut self, set: &str) -> Result<()> {
        self.request(Request::SwapParameters, 0.0, set)
    }

    /// Puts the real parameters back into their place, and the set under its names. Legal where
    /// [`swap_parameters`](TaskView::swap_parameters) is.
    #[track_caller]
    pub fn swap_back(&mut self) -> Result<()> {
        self.request(Request::SwapBack, 0.0, "")
    }

    /// Says whether this hook is called at `module_forward` and `module_backward` from now on; it is
    /// until it says no. Where nobody listens, layers run as one and gradients of modules are not
    /// kept: a hook that looks at modules now and then listens in those iterations alone. It holds
    /// once all hooks of this point have run, and belongs to no checkpoint. Legal where
    /// [`save_checkpoint`](TaskView::save_checkpoint) is, and at `after_load_checkpoint`.
    ///
    /// ```
    /// # use sconce_plugin_api::{Result, TaskView};
    /// /// At `before_iter`: listens in every hundredth iteration.
    /// fn listen_at_times(task: &mut TaskView<'_>, listens: &mut Option<bool>) -> Result<()> {
    ///     let is_due = (task.iteration() + 1).is_multiple_of(100);
    ///     if listens.replace(is_due) == Some(is_due) {
    ///         return Ok(());
    ///     }
    ///     task.listen_at_modules(is_due)
    /// }
    /// ```
    #[track_caller]
    pub fn listen_at_modules(&mut self, listens: bool) -> Result<()> {
        self.request(Request::ListenAtModules, f64::from(u8::from(listens)), "")
    }

    #[track_caller]
    fn request(&mut self, request: Request, number: f64, text: &str) -> Result<()> {
        let table = Self::table(self.tables.requests, RequestsTable::ID)?;
        let mut error = ErrorAbi::new();
        // SAFETY: the context came with this view; text and error are borrowed for the call.
        let status = unsafe {
            (table.request)(
                self.abi.context,
                request as u32,
                number,
                TextAbi::new(text),
                &raw mut error,
            )
        };
        outcome(status, &error)
    }
}

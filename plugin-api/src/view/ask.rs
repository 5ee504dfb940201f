//! Requests to the run, served by the host after all hooks of the point have run.

use super::TaskView;
use crate::error::outcome;
use crate::ext::{Request, RequestsTable};
use crate::{HookError, Result};

impl TaskView<'_> {
    /// Requests that the run stops after this training iteration; `reason` is shown to the user.
    ///
    /// A validation or test in progress is finished first, so that its metrics are complete; the final test
    /// still runs. If several hooks request a stop, the first reason is reported, except that an immediate
    /// stop replaces a [`stop_after_epoch`](TaskView::stop_after_epoch). Legal everywhere except at
    /// `after_run` and `on_exception`.
    #[track_caller]
    pub fn stop(&mut self, reason: &str) -> Result<()> {
        self.request(Request::Stop, 0.0, reason)
    }

    /// Requests that the run stops after this epoch and its validation; `reason` is shown to the user.
    ///
    /// Legal where [`stop`](TaskView::stop) is.
    #[track_caller]
    pub fn stop_after_epoch(&mut self, reason: &str) -> Result<()> {
        self.request(Request::StopAfterEpoch, 0.0, reason)
    }

    /// Skips this batch: no forward pass, no metrics, and in training no gradients.
    ///
    /// It still counts as an iteration. Legal at `before_iter`.
    #[track_caller]
    pub fn skip_batch(&mut self) -> Result<()> {
        self.request(Request::SkipBatch, 0.0, "")
    }

    /// Skips the update that this batch belongs to; its gradients are discarded.
    ///
    /// Legal at `after_loss(train)`, `after_backward` and `before_update`.
    #[track_caller]
    pub fn skip_update(&mut self) -> Result<()> {
        self.request(Request::SkipUpdate, 0.0, "")
    }

    /// Sets the optimizer's learning rate, finite and not negative; takes effect immediately and persists.
    ///
    /// A parameter group with a `learning_rate_scale` gets the rate multiplied by its scale. Legal at
    /// `before_run`, before and after loops, epochs and iterations, at `after_cycle`, `before_update` and
    /// `after_load_checkpoint`.
    #[track_caller]
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        self.request(Request::SetLearningRate, learning_rate, "")
    }

    /// Sets the learning rate of one parameter group, regardless of its scale.
    ///
    /// Legal where [`set_learning_rate`](TaskView::set_learning_rate) is.
    ///
    /// # Errors
    ///
    /// If there is no such group; the message suggests the nearest name.
    #[track_caller]
    pub fn set_learning_rate_of(&mut self, group: &str, learning_rate: f64) -> Result<()> {
        self.request(Request::SetLearningRate, learning_rate, group)
    }

    /// Sets the optimizer's momentum, from 0 to below 1; takes effect immediately and persists.
    ///
    /// For Adam, AdamW and Lion it sets beta1, for SGD and RMSprop the momentum. It is stored in checkpoints.
    /// Legal where [`set_learning_rate`](TaskView::set_learning_rate) is. Since 1.2.
    ///
    /// # Errors
    ///
    /// If the optimizer has no momentum: RMSprop configured without one, which is its default.
    #[track_caller]
    pub fn set_momentum(&mut self, momentum: f64) -> Result<()> {
        self.request(Request::SetMomentum, momentum, "")
    }

    /// Sets the momentum of one parameter group, as [`set_momentum`](TaskView::set_momentum) does.
    ///
    /// Since 1.2.
    ///
    /// # Errors
    ///
    /// As for [`set_momentum`](TaskView::set_momentum), and if there is no such group; the message suggests
    /// the nearest name.
    #[track_caller]
    pub fn set_momentum_of(&mut self, group: &str, momentum: f64) -> Result<()> {
        self.request(Request::SetMomentum, momentum, group)
    }

    /// Freezes a parameter or buffer once all hooks of this point have run.
    ///
    /// The optimizer no longer changes it or its moments and applies no weight decay to it, and it has no
    /// gradient. A batch norm with a frozen running statistic normalises by its running statistics in
    /// training too, and does not update them. Checkpoints store what is frozen. Legal where
    /// [`save_checkpoint`](TaskView::save_checkpoint) is. Since 1.2.
    ///
    /// # Errors
    ///
    /// If there is no such parameter or buffer; the message suggests the nearest name.
    #[track_caller]
    pub fn freeze(&mut self, parameter: &str) -> Result<()> {
        self.request(Request::Freeze, 0.0, parameter)
    }

    /// Resumes training of a [frozen](TaskView::freeze) parameter or buffer, from the state in which it was
    /// left.
    ///
    /// `learning_rate_share` multiplies the learning rate of the parameter's group; it must be above 0, and 1
    /// for a buffer. Legal where [`freeze`](TaskView::freeze) is. Since 1.2.
    #[track_caller]
    pub fn unfreeze(&mut self, parameter: &str, learning_rate_share: f64) -> Result<()> {
        if learning_rate_share.is_nan() || learning_rate_share <= 0.0 {
            return Err(HookError::new(format_args!(
                "`{parameter}` is to be trained at a share of the learning rate that is above 0, \
                 found {learning_rate_share}"
            )));
        }
        self.request(Request::Freeze, learning_rate_share, parameter)
    }

    /// Accumulates the gradients of `batches` batches (at least 1) per update, overriding `train.accumulate`.
    ///
    /// Takes effect with the next update; one already begun is completed as planned. It persists and is
    /// stored in checkpoints. Legal where [`save_checkpoint`](TaskView::save_checkpoint) is. Since 1.2.
    #[track_caller]
    pub fn set_accumulation(&mut self, batches: u64) -> Result<()> {
        self.request(Request::SetAccumulation, batches as f64, "")
    }

    /// Recomputes the running means and variances of all batch norms once all hooks of this point have run.
    ///
    /// They are computed by forward passes in training mode over `samples` training samples (0, or more than
    /// there are: all of them), in the order of the next epoch and with the current parameters, also if these
    /// are [swapped](TaskView::swap_parameters). The result is the mean and the (biased) variance over all
    /// these samples together. No hook is called during these passes, nothing else in the run changes, and
    /// [frozen](TaskView::freeze) statistics are kept. Legal before and after loops and epochs, at
    /// `after_cycle`, and at `after_iter(train)`. Since 1.2.
    ///
    /// # Errors
    ///
    /// If the model has no buffers; reported as an error of this hook after the point.
    #[track_caller]
    pub fn renew_statistics(&mut self, samples: u64) -> Result<()> {
        self.request(Request::RenewStatistics, samples as f64, "")
    }

    /// Multiplies this batch's loss by a finite factor before the backward pass.
    ///
    /// The reported loss is unchanged; the factors of several hooks multiply. A hook that scales the loss to
    /// keep small gradients from vanishing has to divide the gradients at `before_update`. Legal at
    /// `after_loss(train)`.
    #[track_caller]
    pub fn scale_loss(&mut self, factor: f64) -> Result<()> {
        self.request(Request::ScaleLoss, factor, "")
    }

    /// Saves a checkpoint to `checkpoints/TAG` in the run directory once all hooks of this point have run.
    ///
    /// It contains parameters, optimizer, counters, metrics, and the states of all hooks. An existing
    /// checkpoint of that tag is replaced atomically. During a validation or the test, the save is delayed
    /// until that has finished. A failed save (e.g. a full disk) is a warning, and `after_save_checkpoint`
    /// gets the error.
    ///
    /// Legal between iterations: at `before_run`, before and after loops, epochs and iterations, and at
    /// `after_cycle`, in any phase.
    ///
    /// # Errors
    ///
    /// If the tag is empty, longer than 128 bytes, starts with a dot, contains other characters than ASCII
    /// letters, digits, `-`, `_` and `.`, or is `latest`, which always refers to the checkpoint saved last.
    #[track_caller]
    pub fn save_checkpoint(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveCheckpoint, 0.0, tag)
    }

    /// Saves a checkpoint of parameters and buffers only.
    ///
    /// It has a third of the size if the optimizer keeps two values per parameter. A run can neither resume
    /// from it nor roll back to it; only its parameters can be loaded
    /// ([`load_parameters`](TaskView::load_parameters), or `sconce eval` and `predict`). During a validation
    /// it is saved without delay; otherwise as [`save_checkpoint`](TaskView::save_checkpoint).
    #[track_caller]
    pub fn save_parameters(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveCheckpoint, 1.0, tag)
    }

    /// Saves a checkpoint as [`save_checkpoint`](TaskView::save_checkpoint) does, written in the background.
    ///
    /// Training waits only for a copy in memory. One checkpoint is written at a time: the next save, requests
    /// that concern checkpoints, a rollback and the end of training wait for the previous one.
    /// `after_save_checkpoint` is called at such a point rather than whenever the disk happens to be done, so
    /// that runs stay reproducible to the bit. After a power failure before that point, the previous
    /// checkpoint is still there. Hosts before 1.2 reject the request.
    #[track_caller]
    pub fn save_in_background(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveInBackground, 0.0, tag)
    }

    /// Saves the parameters only ([`save_parameters`](TaskView::save_parameters)), in the background
    /// ([`save_in_background`](TaskView::save_in_background)).
    #[track_caller]
    pub fn save_parameters_in_background(&mut self, tag: &str) -> Result<()> {
        self.request(Request::SaveInBackground, 1.0, tag)
    }

    /// Deletes the checkpoint with this tag, if it exists, e.g. to keep only the last few.
    ///
    /// Legal where [`save_checkpoint`](TaskView::save_checkpoint) is, and at `after_save_checkpoint`: delete
    /// an older checkpoint there, when the newer one is complete. Requests of one point are served in the
    /// order in which they were made.
    #[track_caller]
    pub fn delete_checkpoint(&mut self, tag: &str) -> Result<()> {
        self.request(Request::DeleteCheckpoint, 0.0, tag)
    }

    /// Gives the checkpoint `from` a second tag `to`, atomically.
    ///
    /// The files are hard-linked instead of written again if the file system supports it. Legal where
    /// [`delete_checkpoint`](TaskView::delete_checkpoint) is.
    #[track_caller]
    pub fn copy_checkpoint(&mut self, from: &str, to: &str) -> Result<()> {
        self.request(Request::CopyCheckpoint, 0.0, &format!("{from}/{to}"))
    }

    /// Exports the parameters of the checkpoint `tag` to `published/NAME-HASH.safetensors`, for distribution.
    ///
    /// The file contains the parameters under their plain names and nothing else. HASH is the first eight hex
    /// digits of its SHA-256. With `set`, the checkpoint's tensors `SET/PARAMETER` replace its parameters
    /// (averaged weights, say). An existing file of that name with another hash is replaced. Legal where
    /// [`delete_checkpoint`](TaskView::delete_checkpoint) is.
    #[track_caller]
    pub fn publish_weights(&mut self, tag: &str, name: &str, set: Option<&str>) -> Result<()> {
        let text = match set {
            Some(set) => format!("{tag}/{name}/{set}"),
            None => format!("{tag}/{name}"),
        };
        self.request(Request::PublishWeights, 0.0, &text)
    }

    /// Loads parameters and buffers from the checkpoint `tag` once all hooks of this point have run.
    ///
    /// Optimizer, counters, metrics and hooks are unchanged; this is how a run ends with its best model. With
    /// `set`, the checkpoint's tensors `SET/PARAMETER` replace its parameters. Legal where
    /// [`save_checkpoint`](TaskView::save_checkpoint) is.
    #[track_caller]
    pub fn load_parameters(&mut self, tag: &str, set: Option<&str>) -> Result<()> {
        let text = match set {
            Some(set) => format!("{tag}/{set}"),
            None => tag.to_owned(),
        };
        self.request(Request::LoadParameters, 0.0, &text)
    }

    /// Runs a validation, with all its mount points, once all hooks of this point have run.
    ///
    /// Does nothing if there is no validation data. Legal in training at `after_iter`, before and after
    /// epochs and the loop, and at `after_cycle`.
    #[track_caller]
    pub fn validate_now(&mut self) -> Result<()> {
        self.request(Request::Validate, 0.0, "")
    }

    /// Rolls back to the checkpoint `tag` once all hooks of this point have run.
    ///
    /// Parameters, optimizer, learning rates, counters, metrics and the states of all hooks are restored,
    /// `after_load_checkpoint` is called, and training continues from there. The current epoch is abandoned
    /// without `after_epoch`; the epoch in which the checkpoint was saved begins with `before_epoch` and
    /// continues after the batches that were already done.
    ///
    /// A hook that counts its own rollbacks must keep that number out of its state. Legal in training at
    /// `after_iter`, `before_epoch`, `after_epoch` and `after_cycle`.
    #[track_caller]
    pub fn roll_back(&mut self, tag: &str) -> Result<()> {
        self.request(Request::RollBack, 0.0, tag)
    }

    /// Replaces the parameters by the published tensors `SET/PARAMETER` once all hooks of this point have
    /// run.
    ///
    /// A hook that keeps averaged weights evaluates them this way. Checkpoints still store the real
    /// parameters. They must be [swapped back](TaskView::swap_back) before the next training batch.
    ///
    /// Legal where [`save_checkpoint`](TaskView::save_checkpoint) is.
    #[track_caller]
    pub fn swap_parameters(&mut self, set: &str) -> Result<()> {
        self.request(Request::SwapParameters, 0.0, set)
    }

    /// Restores the real parameters after a swap, and the published set under its names.
    ///
    /// Legal where [`swap_parameters`](TaskView::swap_parameters) is.
    #[track_caller]
    pub fn swap_back(&mut self) -> Result<()> {
        self.request(Request::SwapBack, 0.0, "")
    }

    /// Chooses whether this hook is called at `module_forward` and `module_backward` from now on.
    ///
    /// Initially it is. While no hook listens, layers are fused and module gradients are not kept: a hook
    /// that inspects modules only now and then should listen only in those iterations. Takes effect once all
    /// hooks of this point have run, and is not stored in checkpoints. Legal where
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
        let (status, error) = table.ask(self.abi.context, request, number, text);
        outcome(status, &error)
    }
}

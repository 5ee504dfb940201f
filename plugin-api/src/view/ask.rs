//! Requests to the run, served by the host after all hooks of the point have run, but for those that say otherwise.

use super::moment::{
    BetweenIterations, ChangesSettings, ChoosesModules, Moment, RenewsStatistics, ScalesLoss,
    SkipsBatch, SkipsUpdate, Stops, Validates,
};
use super::{At, TaskView};
use crate::error::outcome;
use crate::ext::{GENERATED_TEXT, Request, TextRequest, WrittenText};
use crate::{Context, HookError, Result};

/// Parameter groups of the optimizer, as the manifest defines them: all, or the one of a name.
///
/// A name alone is one: `task.set_learning_rate("head", 0.1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups<'name> {
    /// All groups.
    All,
    /// The group with this name; `default` has all parameters that are in no other group.
    Named(&'name str),
}

impl<'name> From<&'name str> for Groups<'name> {
    fn from(name: &'name str) -> Self {
        Groups::Named(name)
    }
}

impl<'name> From<&'name String> for Groups<'name> {
    fn from(name: &'name String) -> Self {
        Groups::Named(name)
    }
}

impl<'name> Groups<'name> {
    /// The text of a request: the group's name, or nothing for all.
    fn text(self) -> &'name str {
        match self {
            Groups::All => "",
            Groups::Named(name) => name,
        }
    }
}

impl<M: Moment> At<'_, M> {
    /// Requests that the run stops after this training iteration; `reason` is shown to the user.
    ///
    /// A validation or test in progress is finished first, so that its metrics are complete; the final test
    /// still runs. If several hooks request a stop, the first reason is reported, except that an immediate
    /// stop replaces a [`stop_after_epoch`](At::stop_after_epoch).
    #[track_caller]
    pub fn stop(&mut self, reason: &str) -> Result<()>
    where
        M: Stops,
    {
        self.request(Request::Stop, 0.0, reason)
    }

    /// Requests that the run stops after this epoch and its validation; `reason` is shown to the user.
    #[track_caller]
    pub fn stop_after_epoch(&mut self, reason: &str) -> Result<()>
    where
        M: Stops,
    {
        self.request(Request::StopAfterEpoch, 0.0, reason)
    }

    /// Skips this batch: no forward pass, no metrics, and in training no gradients. It still counts as an iteration.
    #[track_caller]
    pub fn skip_batch(&mut self) -> Result<()>
    where
        M: SkipsBatch,
    {
        self.request(Request::SkipBatch, 0.0, "")
    }

    /// Multiplies this batch's loss by a finite factor before the backward pass.
    ///
    /// The reported loss is unchanged; the factors of several hooks multiply. A hook that scales the loss to
    /// keep small gradients from vanishing has to divide the gradients at `before_update`.
    #[track_caller]
    pub fn scale_loss(&mut self, factor: f64) -> Result<()>
    where
        M: ScalesLoss,
    {
        self.request(Request::ScaleLoss, factor, "")
    }

    /// Skips the update that this batch belongs to; its gradients are discarded.
    #[track_caller]
    pub fn skip_update(&mut self) -> Result<()>
    where
        M: SkipsUpdate,
    {
        self.request(Request::SkipUpdate, 0.0, "")
    }

    /// Sets the learning rate of parameter groups, finite and not negative; takes effect immediately and persists.
    ///
    /// With [`Groups::All`] a group that has a `learning_rate_scale` gets the rate multiplied by its scale; a named group
    /// gets the rate itself.
    ///
    /// # Errors
    ///
    /// If there is no such group; the message suggests the nearest name.
    #[track_caller]
    pub fn set_learning_rate<'g>(&mut self, groups: impl Into<Groups<'g>>, rate: f64) -> Result<()>
    where
        M: ChangesSettings,
    {
        self.request(Request::SetLearningRate, rate, groups.into().text())
    }

    /// Sets the momentum of parameter groups, from 0 to below 1; takes effect immediately and persists.
    ///
    /// For Adam, AdamW and Lion it sets beta1, for SGD and RMSprop the momentum. It is stored in checkpoints.
    ///
    /// # Errors
    ///
    /// If the optimizer has no momentum: RMSprop configured without one, which is its default; and if there is no such group.
    #[track_caller]
    pub fn set_momentum<'g>(&mut self, groups: impl Into<Groups<'g>>, momentum: f64) -> Result<()>
    where
        M: ChangesSettings,
    {
        self.request(Request::SetMomentum, momentum, groups.into().text())
    }

    /// Sets the weight decay of parameter groups, finite and not negative; takes effect immediately, persists, and is stored
    /// in checkpoints.
    ///
    /// # Errors
    ///
    /// If there is no such group; the message suggests the nearest name.
    #[track_caller]
    pub fn set_weight_decay<'g>(&mut self, groups: impl Into<Groups<'g>>, decay: f64) -> Result<()>
    where
        M: ChangesSettings,
    {
        self.request(Request::SetWeightDecay, decay, groups.into().text())
    }

    /// Freezes a parameter or buffer once all hooks of this point have run.
    ///
    /// The optimizer no longer changes it or its moments and applies no weight decay to it, and it has no
    /// gradient. A batch norm with a frozen running statistic normalises by its running statistics in
    /// training too, and does not update them. Checkpoints store what is frozen.
    ///
    /// # Errors
    ///
    /// If there is no such parameter or buffer; the message suggests the nearest name.
    #[track_caller]
    pub fn freeze(&mut self, parameter: &str) -> Result<()>
    where
        M: BetweenIterations,
    {
        self.request(Request::Freeze, 0.0, parameter)
    }

    /// Resumes training of a [frozen](At::freeze) parameter or buffer, from the state in which it was left.
    ///
    /// `learning_rate_share` multiplies the learning rate of the parameter's group; it must be above 0, and 1
    /// for a buffer.
    #[track_caller]
    pub fn unfreeze(&mut self, parameter: &str, learning_rate_share: f64) -> Result<()>
    where
        M: BetweenIterations,
    {
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
    /// stored in checkpoints.
    #[track_caller]
    pub fn set_accumulation(&mut self, batches: u64) -> Result<()>
    where
        M: BetweenIterations,
    {
        self.request(Request::SetAccumulation, batches as f64, "")
    }

    /// Recomputes the running means and variances of all batch norms once all hooks of this point have run.
    ///
    /// They are computed by forward passes in training mode over `samples` training samples (0, or more than
    /// there are: all of them), in the order of the next epoch and with the current parameters, also if these
    /// are [swapped](At::swap_parameters). The result is the mean and the (biased) variance over all
    /// these samples together. No hook is called during these passes, nothing else in the run changes, and
    /// [frozen](At::freeze) statistics are kept.
    ///
    /// # Errors
    ///
    /// If the model has no buffers; reported as an error of this hook after the point.
    #[track_caller]
    pub fn renew_statistics(&mut self, samples: u64) -> Result<()>
    where
        M: RenewsStatistics,
    {
        self.request(Request::RenewStatistics, samples as f64, "")
    }

    /// Runs a validation, with all its mount points, once all hooks of this point have run.
    ///
    /// Does nothing if there is no validation data.
    #[track_caller]
    pub fn validate_now(&mut self) -> Result<()>
    where
        M: Validates,
    {
        self.request(Request::Validate, 0.0, "")
    }

    /// Has the model write text, with the parameters as they are now: swapped ones within an evaluation that uses them.
    ///
    /// It is done before this returns, with one text for each prompt. No hook is called meanwhile, and nothing in the run
    /// changes. A text depends on the parameters, its prompt, the prompt's place in the list and the seed alone.
    ///
    /// ```
    /// # use sconce_plugin_api::prelude::*;
    /// # use sconce_plugin_api::TextRequest;
    /// /// At `after_epoch`: a line of the play.
    /// fn write(task: &mut AfterEpoch<'_>) -> Result<()> {
    ///     let prompts = vec!["ROMEO:".to_owned()];
    ///     let request = TextRequest { prompts, tokens: 40, ..TextRequest::default() };
    ///     for written in task.generate(&request)? {
    ///         task.info(&written.text);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the model isn't one of text, with the reason ([`Plan::why_no_text`](crate::Plan::why_no_text) has it at creation), a
    /// prompt is empty or has characters that the model doesn't know, or an option is out of its range.
    #[track_caller]
    pub fn generate(&mut self, request: &TextRequest) -> Result<Vec<WrittenText>>
    where
        M: BetweenIterations,
    {
        let request = serde_json::to_string(request).context("the request can't be written")?;
        self.request(Request::Generate, 0.0, &request)?;
        let written = self.published(GENERATED_TEXT)?;
        written.ok_or_else(|| HookError::new("the host has published no text; update the host"))
    }

    /// Replaces the parameters by the published tensors `SET/PARAMETER` once all hooks of this point have
    /// run.
    ///
    /// A hook that keeps averaged weights evaluates them this way. Checkpoints still store the real
    /// parameters. They must be [swapped back](At::swap_back) before the next training batch.
    #[track_caller]
    pub fn swap_parameters(&mut self, set: &str) -> Result<()>
    where
        M: BetweenIterations,
    {
        self.request(Request::SwapParameters, 0.0, set)
    }

    /// Restores the real parameters after a swap, and the published set under its names.
    #[track_caller]
    pub fn swap_back(&mut self) -> Result<()>
    where
        M: BetweenIterations,
    {
        self.request(Request::SwapBack, 0.0, "")
    }

    /// Chooses whether this hook is called at `module_forward` and `module_backward` from now on.
    ///
    /// Initially it is. While no hook listens, layers are fused and module gradients are not kept: a hook
    /// that inspects modules only now and then should listen only in those iterations. Takes effect once all
    /// hooks of this point have run, and is not stored in checkpoints.
    ///
    /// ```
    /// # use sconce_plugin_api::prelude::*;
    /// /// Listens in every hundredth iteration.
    /// fn before_iter(task: &mut BeforeIter<'_>, listens: &mut Option<bool>) -> Result<()> {
    ///     let is_due = (task.iteration() + 1).is_multiple_of(100);
    ///     if listens.replace(is_due) == Some(is_due) {
    ///         return Ok(());
    ///     }
    ///     task.listen_at_modules(is_due)
    /// }
    /// ```
    #[track_caller]
    pub fn listen_at_modules(&mut self, listens: bool) -> Result<()>
    where
        M: ChoosesModules,
    {
        self.request(Request::ListenAtModules, f64::from(u8::from(listens)), "")
    }
}

impl TaskView<'_> {
    #[track_caller]
    pub(super) fn request(&mut self, request: Request, number: f64, text: &str) -> Result<()> {
        outcome(self.host.requests()?.request(request as u32, number, text))
    }
}

//! What a hook may ask of the run. The host serves requests after all hooks of the point have run.

use super::TaskView;
use crate::Result;
use crate::abi::{ErrorAbi, TextAbi};
use crate::export::outcome;
use crate::ext::{Request, RequestsTable};

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
    /// Legal at `before_run`, around loops, epochs and iterations, at `after_cycle` and at
    /// `before_update`.
    #[track_caller]
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        self.request(Request::SetLearningRate, learning_rate, "")
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

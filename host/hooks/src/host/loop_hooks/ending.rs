//! The ends of a run: its own, a failure, and a loop that leaves without a word.

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{FailureAbi, OutcomeAbi, TextAbi};

use super::LoopHooks;
use crate::dispatch::Payload;
use crate::host::error::{HostError, HostResult};

impl LoopHooks<'_> {
    /// The run ends: `after_loop` if it is due, `after_run`, and the hooks are dropped.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch or a pass is in progress.
    pub fn finish(mut self) -> HostResult {
        self.end_training()?;
        let outcome = match self.shared.requests.stop() {
            Some(stop) => (1, stop.reason),
            None => (0, String::new()),
        };
        self.end_run(outcome)
    }

    /// The run has failed for a reason of the loop's: `on_exception`, `after_run`, and the hooks are dropped.
    ///
    /// # Errors
    ///
    /// If a hook fails, too.
    pub fn fail(mut self, message: &str) -> HostResult {
        self.announce_failure(message);
        self.end_run((2, message.to_owned()))
    }

    fn announce_failure(&mut self, message: &str) {
        let Some(hooks) = &mut self.hooks else {
            return;
        };
        let payload = FailureAbi {
            origin: 0,
            message: TextAbi::new(message),
            hook: TextAbi::new(""),
        };
        let payload = Payload::Failure(&payload);
        let position = self.followed.position();
        let faults = hooks.call_every_with(Point::OnException, payload, position, &self.shared);
        for fault in faults {
            self.shared.warn(&fault.to_string());
        }
    }

    fn end_run(&mut self, (kind, reason): (u32, String)) -> HostResult {
        let swapped_back = self.restore_parameters("the run ends");
        let ended = self.followed.end_run();
        let Some(mut hooks) = self.hooks.take() else {
            return Ok(());
        };
        let payload = OutcomeAbi {
            kind,
            reason: TextAbi::new(&reason),
        };
        let payload = Payload::Outcome(&payload);
        let position = self.followed.position();
        let mut faults = hooks.call_every_with(Point::AfterRun, payload, position, &self.shared);
        faults.extend(hooks.close(&self.shared));
        swapped_back?;
        ended?;
        match faults.into_iter().next() {
            Some(fault) => Err(HostError::Hook(Box::new(fault))),
            None => Ok(()),
        }
    }
}

impl Drop for LoopHooks<'_> {
    /// A loop that was left by an error of its own: hooks are told, and close what they have open.
    fn drop(&mut self) {
        if self.hooks.is_some() {
            let message = "the loop ended without `finish`";
            self.announce_failure(message);
            drop(self.end_run((2, message.to_owned())));
        }
    }
}

//! Serves the requests of hooks, once all hooks of a mount point have run.

use sconce_lifecycle::validate;
use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::{Asked, serving_order};

use crate::run::checkpoints::save_options::SaveOptions;
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Serves the requests made at the current mount point, in order.
    #[cold]
    pub(in crate::run) fn serve(&mut self) -> Result<(), Leave> {
        let asked = self.shared.requests.take_asked();
        self.serve_all(asked)
    }

    /// Serves requests: saves that others may refer to before those, and otherwise in order.
    ///
    /// While one is served, those after it are in the saver's queue, and so in every checkpoint saved meanwhile.
    pub(in crate::run) fn serve_all(
        &mut self,
        mut asked: Vec<(Asked, String)>,
    ) -> Result<(), Leave> {
        serving_order(&mut asked, |(asked, _)| asked);
        // Requests of a mount point around this one wait until those of this one are served.
        let waiting = self.saver.queue.len();
        for request in asked.into_iter().rev() {
            self.saver.queue.push_front(request);
        }
        let mut has_rolled_back = false;
        while self.saver.queue.len() > waiting {
            let Some((asked, hook)) = self.saver.queue.pop_front() else {
                break;
            };
            let is_roll_back = matches!(asked, Asked::RollBack(_));
            match self.serve_one(asked, &hook) {
                // The other requests of this mount point are served first.
                Err(Leave::RolledBack) if is_roll_back => has_rolled_back = true,
                Err(leave) => {
                    // After a failure, the checkpoint that is saved then contains the others.
                    if !matches!(leave, Leave::Failed(_)) {
                        let others = self.saver.queue.len().saturating_sub(waiting);
                        self.saver.queue.drain(..others);
                    }
                    return Err(leave);
                }
                Ok(()) => {}
            }
        }
        if has_rolled_back {
            return Err(Leave::RolledBack);
        }
        Ok(())
    }

    fn serve_one(&mut self, asked: Asked, hook: &str) -> Result<(), Leave> {
        if let Asked::Listen(listens) = asked {
            self.hooks.set_listening(hook, listens);
            return Ok(());
        }
        // Deleting an unneeded checkpoint is not undone by restoring the run's state.
        let is_deletion = matches!(asked, Asked::Delete(_));
        if self.resumption.from.is_some() || (self.position.is_reopening && !is_deletion) {
            // It was served in the run's first segment, whose state is restored.
            return Ok(());
        }
        self.serving(hook, |trainer| trainer.carry_out(asked, hook))
    }

    /// Does work that a hook has requested, or, without a name, the host. It does not count towards the pass in progress.
    pub(in crate::run) fn serving<T>(
        &mut self,
        hook: &str,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let service = self.timing.begin_service(&mut self.hooks);
        let result = work(self);
        self.timing.end_service(service, hook, &mut self.hooks);
        result
    }

    fn carry_out(&mut self, asked: Asked, hook: &str) -> Result<(), Leave> {
        match asked {
            Asked::Save {
                tag,
                parameters_only: true,
                in_background,
            } => self.save(&tag, hook, SaveOptions::PARAMETERS.written(in_background)),
            Asked::Save {
                tag, in_background, ..
            } => {
                let options = SaveOptions::COMPLETE.written(in_background);
                self.save_after_evaluation(tag, hook, options)
            }
            Asked::Validate => self.validate_now(),
            Asked::RollBack(tag) => self.roll_back(&tag, hook),
            Asked::Swap(set) => self.swap(&set, hook),
            Asked::SwapBack => self.swap_back(hook),
            Asked::LoadParameters { tag, set } => self.load_parameters(&tag, set.as_deref(), hook),
            Asked::Delete(tag) => self.delete_checkpoint(&tag, hook),
            Asked::Copy { from, to } => self.copy_checkpoint(&from, &to, hook),
            Asked::Publish { tag, name, set } => {
                self.publish_weights(&tag, &name, set.as_deref(), hook)
            }
            Asked::Freeze { name, ratio } => {
                // Known to exist: the name was checked at the time of the request.
                if let Ok(parameter) = self.task.parameters().get(&name) {
                    parameter.set_learning_rate_scale(ratio);
                }
                Ok(())
            }
            Asked::Renew(samples) => self.renew_statistics(samples, hook),
            // Other requests take effect immediately and are never queued.
            _ => Ok(()),
        }
    }

    /// Saves now, or at the end of a validation in progress. A checkpoint in the middle of it would contain
    /// only half of its results.
    fn save_after_evaluation(
        &mut self,
        tag: String,
        hook: &str,
        options: SaveOptions,
    ) -> Result<(), Leave> {
        if !self.position.evaluation.is_under_way {
            return self.save(&tag, hook, options);
        }
        if !self.saver.waiting.iter().any(|(known, _, _)| *known == tag) {
            self.saver
                .waiting
                .push_back((tag, hook.to_owned(), options));
        }
        Ok(())
    }

    /// Validates in the middle of training.
    pub(in crate::run) fn validate_now(&mut self) -> Result<(), Leave> {
        if self.task.data(Phase::Val).is_none() {
            return Ok(());
        }
        self.position.evaluation.is_requested = true;
        validate(self, false)?;
        self.position.evaluation.is_requested = false;
        Ok(())
    }

    /// Reports a request that can't be served as a fault of its hook, subject to the hook's policy.
    pub(in crate::run) fn blame(&mut self, hook: &str, message: &str) -> Result<(), Leave> {
        let fault = (self.hooks).blame(hook, &self.position, message, self.shared);
        Ok(fault.map_err(RunError::Hook)?)
    }
}

//! Serves the requests of hooks, once all hooks of a mount point have run.

use sconce_lifecycle::validate;
use sconce_plugin_api::ext::{Asked, serving_order};
use sconce_plugin_api::{Phase, Point};

use crate::parameters::{Parameter, ParameterKind};
use crate::run::checkpoints::save_options::SaveOptions;
use crate::run::failure::Leave;
use crate::run::iteration::recomputed_statistics::recompute;
use crate::run::ranks::state::is_within_batch;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Serves at a mount point what can be served there.
    #[cold]
    pub(in crate::run) fn serve_at(&mut self, point: Point) -> Result<(), Leave> {
        let served = if self.ranks.is_none() {
            self.serve()
        } else {
            self.hear_listeners();
            if is_within_batch(point) {
                return Ok(());
            }
            self.vote()
        };
        self.is_within_call |= matches!(served, Err(Leave::Failed(_)));
        served
    }

    /// Serves the requests made at the current mount point, in order.
    #[cold]
    fn serve(&mut self) -> Result<(), Leave> {
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
            Asked::LoadParameters { .. }
            | Asked::Delete(_)
            | Asked::Copy { .. }
            | Asked::Publish { .. } => self.serve_saved(asked, hook),
            Asked::Freeze { name, ratio } => {
                // Known to exist: the name was checked at the time of the request.
                if let Ok(parameter) = self.task.parameters().get(&name) {
                    parameter.set_learning_rate_scale(ratio);
                }
                Ok(())
            }
            Asked::Renew(samples) => self.recompute_statistics(samples, hook),
            // Other requests take effect immediately and are never queued.
            _ => Ok(()),
        }
    }

    /// Swaps the parameters for a published set.
    fn swap(&mut self, set: &str, hook: &str) -> Result<(), Leave> {
        let parameters = self.task.parameters();
        let swapped = (self.sets.swap(set, hook, parameters, self.shared))
            .map_err(|error| RunError::task("swapping parameters", &self.position, error))?;
        self.judge(swapped, &format!("swap the parameters for `{set}`"), hook)
    }

    fn swap_back(&mut self, hook: &str) -> Result<(), Leave> {
        if self.sets.swapped.is_none() {
            let reason = "they are in their place".to_owned();
            return self.judge(Err(reason), "swap the parameters back", hook);
        }
        Ok(self.restore_swapped()?)
    }

    /// Swaps the parameters back if they are swapped.
    pub(in crate::run) fn restore_swapped(&mut self) -> Result<(), RunError> {
        let restored = self.sets.swap_back();
        restored.map_err(|error| RunError::task("swapping parameters", &self.position, error))
    }

    /// Checks before a training batch that the parameters are not swapped.
    pub(in crate::run) fn expect_real_parameters(&mut self) -> Result<(), Leave> {
        let Some(swapped) = &self.sets.swapped else {
            return Ok(());
        };
        let message = format!(
            "the parameters are still swapped for `{}` when the training continues; ask for \
             `swap_back` at `{}` or before",
            swapped.set,
            Point::AfterCycle
        );
        let hook = swapped.hook.clone();
        self.restore_swapped()?;
        self.blame(&hook, &message)
    }

    /// Serves a request about saved checkpoints, once none is being written.
    fn serve_saved(&mut self, asked: Asked, hook: &str) -> Result<(), Leave> {
        self.settle_writing()?;
        let ranks = self.ranks.as_ref();
        let (what, served) = match asked {
            Asked::LoadParameters { tag, set } => {
                let read = self.saver.read_weights(&tag, set.as_deref(), ranks)?;
                let loaded = read.and_then(|(weights, metrics)| {
                    (self.sets).load(&weights, self.task.parameters(), self.shared)?;
                    self.sets.note_loaded(&tag, metrics, self.position.update);
                    Ok(())
                });
                (format!("load the parameters of `{tag}`"), loaded)
            }
            Asked::Delete(tag) => {
                let deleted = self.saver.delete(&tag, ranks)?;
                (format!("delete the checkpoint `{tag}`"), deleted)
            }
            Asked::Copy { from, to } => {
                let copied = self.saver.copy(&from, &to, ranks)?;
                let what = format!("copy the checkpoint `{from}` to `{to}`");
                // As a save: what the disk refuses does not end the training.
                let copied = copied.map(|failure| {
                    if let Some(error) = failure {
                        self.shared.warn(&format!("can't {what}: {error}"));
                    }
                });
                (what, copied)
            }
            Asked::Publish { tag, name, set } => {
                let set = set.as_deref();
                let published = self.saver.publish_weights(&tag, &name, set, ranks)?;
                let published = published.map(|message| self.shared.info(&message));
                (format!("publish the weights of `{tag}`"), published)
            }
            _ => return Ok(()),
        };
        self.judge(served, &what, hook)
    }

    /// Reports a failed request as a fault of the hook that made it.
    fn judge(&mut self, result: Result<(), String>, what: &str, hook: &str) -> Result<(), Leave> {
        match result {
            Ok(()) => Ok(()),
            Err(reason) => self.blame(hook, &format!("can't {what}: {reason}")),
        }
    }

    /// Recomputes the running statistics of batch norms.
    fn recompute_statistics(&mut self, samples: Option<u64>, hook: &str) -> Result<(), Leave> {
        let is_buffer = |entry: &Parameter| entry.kind() == ParameterKind::Buffer;
        if !self.task.parameters().iter().any(is_buffer) {
            let reason = "the model keeps none (it has no buffers)".to_owned();
            return self.judge(Err(reason), "recompute statistics", hook);
        }
        Ok(recompute(
            samples,
            self.forward.key(&self.position),
            &mut self.feed,
            self.task,
            &self.plan,
            &self.position,
            &mut self.timing.pass,
        )?)
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

//! Serves the requests of hooks, once all hooks of a mount point have run.

use sconce_lifecycle::validate;
use sconce_plugin_api::ext::Asked;
use sconce_plugin_api::{Phase, Point};

use crate::bridge::StopRequest;
use crate::checkpoint::INTERRUPTED;
use crate::run::checkpoints::save_options::SaveOptions;
use crate::run::failure::Leave;
use crate::run::iteration::recomputed_statistics::recompute;
use crate::run::outside::remote::BY_KEY;
use crate::run::ranks::state::{AgreedStop, UpdateStart, is_within_batch};
use crate::run::ranks::vote::serve_listening;
use crate::run::replacement::recreate::Recreation;
use crate::run::{ReloadService, RemoteRequest, RunError, StopSignal, Trainer};

impl<'run> Trainer<'run> {
    /// Serves at a mount point what can be served there.
    #[cold]
    pub(in crate::run) fn serve_at(&mut self, point: Point) -> Result<(), Leave> {
        let served = if self.ranks.is_none() {
            let asked = self.shared.requests.take_asked();
            self.serve_all(asked)
        } else {
            serve_listening(&mut self.hooks, self.shared);
            if is_within_batch(point) {
                return Ok(());
            }
            self.vote()
        };
        self.is_within_call |= matches!(served, Err(Leave::Failed(_)));
        served
    }

    /// Serves requests: saves that others may refer to before those, and otherwise in order.
    ///
    /// While one is served, those after it are in the saver's queue, and so in every checkpoint saved meanwhile.
    pub(in crate::run) fn serve_all(&mut self, asked: Vec<(Asked, String)>) -> Result<(), Leave> {
        let waiting = self.saver.queue.put_before_others(asked);
        let mut has_rolled_back = false;
        while let Some((asked, hook)) = self.saver.queue.next(waiting) {
            let is_roll_back = matches!(asked, Asked::RollBack(_));
            match self.serve_one(asked, &hook) {
                // The other requests of this mount point are served first.
                Err(Leave::RolledBack) if is_roll_back => has_rolled_back = true,
                Err(leave) => {
                    // After a failure, the checkpoint that is saved then contains the others.
                    if !matches!(leave, Leave::Failed(_)) {
                        self.saver.queue.drop_before(waiting);
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
            | Asked::Publish { .. } => {
                self.settle_writing()?;
                let parameters = (self.task.parameters(), self.position.update);
                let ranks = self.ranks.as_ref();
                let (what, served) =
                    (self.saver).serve(asked, &mut self.sets, parameters, self.shared, ranks)?;
                self.judge(served, &what, hook)
            }
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
        let swapped = (self.sets).swap(set, hook, parameters, self.shared, &self.position)?;
        self.judge(swapped, &format!("swap the parameters for `{set}`"), hook)
    }

    fn swap_back(&mut self, hook: &str) -> Result<(), Leave> {
        if self.sets.swapped.is_none() {
            let reason = "they are in their place".to_owned();
            return self.judge(Err(reason), "swap the parameters back", hook);
        }
        Ok(self.sets.swap_back(&self.position)?)
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
        self.sets.swap_back(&self.position)?;
        self.blame(&hook, &message)
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
        let recomputed = recompute(
            samples,
            self.learning.forward.key(&self.position),
            &mut self.feed,
            self.task,
            &self.plan,
            &self.position,
            &mut self.timing.pass,
        )?;
        self.judge(recomputed, "recompute statistics", hook)
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

    /// Serves restarts, new libraries and requests from outside. Must only be called between two iterations.
    #[inline]
    pub(in crate::run) fn serve_outside(&mut self) -> Result<(), Leave> {
        self.restart_ended()?;
        let reloads = self.outside.reloads.as_ref();
        if reloads.is_some_and(ReloadService::is_asked) {
            self.reload_waiting()?;
        }
        if self.outside.remote.is_asked() {
            return self.serve_remote();
        }
        Ok(())
    }

    #[cold]
    fn serve_remote(&mut self) -> Result<(), Leave> {
        let mut is_paused = false;
        while let Some(request) =
            (self.outside).next_request(&mut is_paused, &mut self.timing, self.shared)
        {
            self.serve_request(request)?;
            if request == RemoteRequest::Stop {
                break;
            }
        }
        Ok(())
    }

    /// Serves a request from outside.
    fn serve_request(&mut self, request: RemoteRequest) -> Result<(), Leave> {
        let iteration = self.position.iteration;
        match request {
            RemoteRequest::Checkpoint if self.saver.store.is_none() => {
                (self.shared).warn("no checkpoint: the run has no output directory");
            }
            RemoteRequest::Checkpoint => {
                let message =
                    format!("saving the checkpoint `{BY_KEY}` after iteration {iteration}");
                self.shared.info(&message);
                return self.serving("", |trainer| {
                    trainer.save(BY_KEY, "", SaveOptions::COMPLETE)
                });
            }
            RemoteRequest::Validate if self.task.data(Phase::Val).is_none() => {
                self.shared.warn("no validation: there is no data for one");
            }
            RemoteRequest::Validate => {
                let message = format!("validating after iteration {iteration}");
                self.shared.info(&message);
                return self.serving("", Trainer::validate_now);
            }
            RemoteRequest::Reload => self.outside.look_for_libraries(self.shared),
            RemoteRequest::Stop => self.shared.requests.ask_stop(StopRequest {
                reason: "asked for at the terminal".to_owned(),
                after_epoch: false,
                hook: String::new(),
            }),
            RemoteRequest::Pause | RemoteRequest::GoOn => {}
        }
        Ok(())
    }

    /// Gives hooks the libraries that wait, if this is the place for it.
    #[cold]
    fn reload_waiting(&mut self) -> Result<(), Leave> {
        let Some(service) = self.outside.reloads.clone() else {
            return Ok(());
        };
        if self.position.evaluation.is_under_way {
            return Ok(());
        }
        if service.loads_again(self.position.iteration) {
            self.settle_writing()?;
            self.recreation().load_all_again()?;
        }
        if service.serves_at(&self.position) {
            while let Some(order) = service.waiting.next() {
                self.settle_writing()?;
                self.recreation().serve(order, &service)?;
            }
        }
        Ok(())
    }

    /// Restarts hooks that have panicked, or whose processes have ended. Must only be called between two iterations.
    #[inline]
    pub(in crate::run) fn restart_ended(&mut self) -> Result<(), RunError> {
        if self.shared.requests.has_restarts() {
            self.recreation().restart_ended()?;
        }
        Ok(())
    }

    fn recreation(&mut self) -> Recreation<'_, 'run> {
        Recreation {
            hooks: &mut self.hooks,
            shared: self.shared,
            position: &self.position,
            parameters: self.task.parameters(),
            saver: &mut self.saver,
        }
    }

    /// Leaves the run if a signal or the last epoch that was asked for says so, after saving a checkpoint.
    pub(in crate::run) fn leave_if_interrupted(&mut self) -> Result<(), Leave> {
        let Some(signal) = self.outside.asks_to_end(&self.position) else {
            return Ok(());
        };
        self.outside.interrupted_by = Some(signal);
        self.leave_interrupted(signal)
    }

    /// Leaves the run because of a signal, after saving a checkpoint.
    fn leave_interrupted(&mut self, signal: StopSignal) -> Result<(), Leave> {
        if self.saver.store.is_some() {
            let message = format!("{}: saving a checkpoint", signal.name());
            self.shared.info(&message);
            self.outside.interrupt.set_saving(true);
            let saved = self.serving("", |trainer| {
                trainer.save(INTERRUPTED, "", SaveOptions::COMPLETE)
            });
            self.outside.interrupt.set_saving(false);
            saved?;
        }
        Err(Leave::Interrupted)
    }

    /// Serves what was requested on any rank, once the update in progress is finished.
    pub(in crate::run) fn serve_requests_on_ranks(&mut self) -> Result<(), Leave> {
        self.restart_ended()?;
        let is_between_updates = self.position.rounds == 0 || self.position.training_pass().updates;
        if !is_between_updates {
            return Ok(());
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.update_start = UpdateStart::of(&self.position);
            if ranks.checks_parameters(self.position.update) {
                self.expect_same_parameters()?;
            }
        }
        self.vote()?;
        match self.outside.interrupted_by {
            Some(signal) => self.leave_interrupted(signal),
            None => Ok(()),
        }
    }

    /// Serves on all ranks what was requested on any.
    fn vote(&mut self) -> Result<(), Leave> {
        let outside = (self.outside).take_shared_requests(&mut self.timing, self.shared);
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let (shared, update) = (self.shared, self.position.update);
        let signal = self.outside.asks_to_end(&self.position);
        let votes = ranks.vote(outside, signal, update, shared, self.task, &mut self.hooks)?;
        self.outside.interrupted_by = votes.signal.or(self.outside.interrupted_by);
        // There are mount points within what is served, such as that after a save: all ranks vote there too.
        shared.requests.keep_pending();
        let served = self.serve_all(votes.asked);
        shared.requests.keep_pending();
        served?;
        for number in votes.outside {
            if let Some(request) = RemoteRequest::of_shared_number(number) {
                self.serve_request(request)?;
            }
        }
        if self.shared.requests.stops_now()
            && let Some(ranks) = &mut self.ranks
        {
            ranks.stop = Some(AgreedStop::Now);
        }
        Ok(())
    }
}

//! What is served between two iterations: signals, requests from outside and of other ranks, restarted and reloaded hooks.

use std::time::Instant;

use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::Asked;

use crate::bridge::StopRequest;
use crate::checkpoint::INTERRUPTED;
use crate::log::Level;
use crate::manifest::ReloadAt;
use crate::run::checkpoints::save_options::SaveOptions;
use crate::run::failure::Leave;
use crate::run::outside::reloads::{ReloadCandidate, ReloadOrder, ReloadService};
use crate::run::outside::remote::BY_KEY;
use crate::run::ranks::state::{AgreedStop, UpdateStart};
use crate::run::ranks::vote::Ballot;
use crate::run::replacement::recreate::Recreation;
use crate::run::{Interrupt, Observer, Remote, RemoteRequest, StopSignal, Trainer};

/// Requests from outside that all ranks serve.
const SHARED: [RemoteRequest; 3] = [
    RemoteRequest::Checkpoint,
    RemoteRequest::Validate,
    RemoteRequest::Stop,
];

impl<'run> Trainer<'run> {
    /// Makes the run end soon after `interrupt` is raised. The iteration or validation in progress is
    /// finished, and a checkpoint saved.
    pub fn interruptible(mut self, interrupt: &Interrupt) -> Self {
        self.outside.interrupt = interrupt.clone();
        self
    }

    /// Leaves the run if a signal asks for it, after saving a checkpoint.
    pub(in crate::run) fn leave_if_interrupted(&mut self) -> Result<(), Leave> {
        let Some(signal) = self.outside.interrupt.signal() else {
            return Ok(());
        };
        self.outside.interrupted_by = Some(signal);
        self.leave_interrupted(signal)
    }

    /// Leaves the run because of a signal, after saving a checkpoint.
    fn leave_interrupted(&mut self, signal: StopSignal) -> Result<(), Leave> {
        if self.saver.store.is_some() {
            let message = format!("{}: saving a checkpoint", signal.name());
            self.shared.log.log(Level::Info, "sconce", &message);
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
        if self.shared.requests.has_restarts() {
            self.recreation().restart_ended()?;
        }
        if !self.is_between_updates() {
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

    /// Whether no update is in progress.
    fn is_between_updates(&self) -> bool {
        self.position.rounds == 0 || self.position.training_pass().updates
    }

    /// Lets `remote` make requests of the run.
    pub fn asked_by(mut self, remote: &Remote) -> Self {
        self.outside.remote = remote.clone();
        self
    }

    /// Serves requests from outside. Must only be called between two iterations.
    #[inline]
    pub(in crate::run) fn grant(&mut self) -> Result<(), Leave> {
        if self.shared.requests.has_restarts() {
            self.recreation().restart_ended()?;
        }
        let reloads = self.outside.reloads.as_ref();
        if reloads.is_some_and(ReloadService::is_asked) {
            self.reload_waiting()?;
        }
        if self.outside.remote.is_asked() {
            return self.grant_all();
        }
        Ok(())
    }

    #[cold]
    fn grant_all(&mut self) -> Result<(), Leave> {
        let mut is_paused = false;
        loop {
            match self.outside.remote.next() {
                Some(RemoteRequest::Checkpoint) => self.save_by_key()?,
                Some(RemoteRequest::Validate) => self.validate_by_key()?,
                Some(RemoteRequest::Reload) => self.look_for_libraries(),
                Some(RemoteRequest::Pause) => is_paused = true,
                Some(RemoteRequest::GoOn) => is_paused = false,
                Some(RemoteRequest::Stop) => {
                    self.stop_by_key();
                    return Ok(());
                }
                None if !is_paused || self.outside.interrupt.signal().is_some() => return Ok(()),
                None => self.pause(),
            }
        }
    }

    pub(in crate::run) fn stop_by_key(&self) {
        self.shared.requests.ask_stop(StopRequest {
            reason: "asked for at the terminal".to_owned(),
            after_epoch: false,
            hook: String::new(),
        });
    }

    pub(in crate::run) fn save_by_key(&mut self) -> Result<(), Leave> {
        if self.saver.store.is_none() {
            let warning = "no checkpoint: the run has no output directory";
            self.shared.warn(warning);
            return Ok(());
        }
        let iteration = self.position.iteration;
        let message = format!("saving the checkpoint `{BY_KEY}` after iteration {iteration}");
        self.shared.info(&message);
        self.serving("", |trainer| {
            trainer.save(BY_KEY, "", SaveOptions::COMPLETE)
        })
    }

    pub(in crate::run) fn validate_by_key(&mut self) -> Result<(), Leave> {
        if self.task.data(Phase::Val).is_none() {
            self.shared.warn("no validation: there is no data for one");
            return Ok(());
        }
        let iteration = self.position.iteration;
        self.shared
            .info(&format!("validating after iteration {iteration}"));
        self.serving("", Trainer::validate_now)
    }

    /// Lets hooks' libraries be loaded again.
    pub fn reloading(mut self, service: ReloadService<'run>) -> Self {
        self.outside.reloads = Some(service);
        self
    }

    /// Asks for all libraries that have changed.
    fn look_for_libraries(&self) {
        match &self.outside.reloads {
            Some(service) => {
                self.shared.info("looking for libraries that have changed");
                service.reloader.ask();
            }
            None => self.shared.warn("this run can't load libraries again"),
        }
    }

    /// What gives hooks new instances. Must only be used between two iterations.
    pub(in crate::run) fn recreation(&mut self) -> Recreation<'_, 'run> {
        Recreation {
            hooks: &mut self.hooks,
            shared: self.shared,
            position: &self.position,
            parameters: self.task.parameters(),
            saver: &mut self.saver,
        }
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
        let iteration = self.position.iteration;
        if (service.every).is_some_and(|every| iteration.is_multiple_of(every)) {
            for id in self.hooks.ids_in_order() {
                if self.hooks.blueprint_of(id).is_none() {
                    continue;
                }
                self.settle_writing()?;
                self.recreation().load_again(id)?;
            }
        }
        if service.at == ReloadAt::Epoch && self.position.begun.is_some() {
            return Ok(());
        }
        while let Some(order) = service.waiting.next() {
            self.reload_order(order, &service)?;
        }
        Ok(())
    }

    fn reload_order(
        &mut self,
        order: ReloadOrder,
        service: &ReloadService<'_>,
    ) -> Result<(), Leave> {
        let mut results = Vec::new();
        for ReloadCandidate { hook, library } in order.hooks {
            let found = library.and_then(|library| {
                let id = self.recreation().may_reload(&hook)?;
                Ok((id, library))
            });
            let result = match found {
                Ok((id, library)) => {
                    // A checkpoint that is being written has the states of before.
                    self.settle_writing()?;
                    (self.recreation()).reload(id, &hook, &library, service)?
                }
                Err(reason) => Err(reason),
            };
            results.push(self.recreation().reported(hook, result));
        }
        if let Some(request) = &order.request {
            service.reloader.answer(request, &results);
        }
        Ok(())
    }

    /// Waits for a moment, which does not count towards the pass's time or the training's pace.
    pub(in crate::run) fn pause(&mut self) {
        let begin = Instant::now();
        self.outside.remote.wait();
        let waited = begin.elapsed();
        self.timing.pass.begin += waited;
        self.timing.wall.claim_pause(waited);
        self.shared.clock.pause(waited);
    }

    /// Adds an observer of the run.
    pub fn watched_by(mut self, observer: &'run dyn Observer) -> Self {
        self.outside.observer = Some(observer);
        self
    }

    /// Serves requests that concern the requesting hook alone.
    pub(in crate::run) fn hear_listeners(&mut self) {
        let (listening, others): (Vec<_>, Vec<_>) = (self.shared.requests.take_asked())
            .into_iter()
            .partition(|(asked, _)| matches!(asked, Asked::Listen(_)));
        for (asked, hook) in listening {
            if let Asked::Listen(listens) = asked {
                self.hooks.set_listening(&hook, listens);
            }
        }
        for (asked, hook) in others {
            self.shared.requests.ask(asked, hook);
        }
        self.shared.requests.keep_pending();
    }

    /// Serves on all ranks what was requested on any.
    pub(in crate::run) fn vote(&mut self) -> Result<(), Leave> {
        let outside = self.take_shared_requests();
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let (shared, update) = (self.shared, self.position.update);
        let ballot = Ballot {
            stop: ranks.new_stop(shared),
            asked: shared.requests.take_asked(),
            outside,
            off: ranks.newly_off(&self.hooks),
        };
        let signal = self.outside.interrupt.signal();
        let mut votes = ranks.vote(&ballot, signal, update, shared, self.task)?;
        ranks.switch_off(&mut votes, &mut self.hooks, shared);
        self.outside.interrupted_by = votes.signal.or(self.outside.interrupted_by);
        // There are mount points within what is served, such as that after a save: all ranks vote there too.
        shared.requests.keep_pending();
        let served = self.serve_all(votes.asked);
        shared.requests.keep_pending();
        served?;
        self.serve_outside(&votes.outside)
    }

    /// Takes the requests from outside that all ranks serve, by their numbers; waits here while the run is paused.
    fn take_shared_requests(&mut self) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(request) = self.outside.remote.next() {
            let place = SHARED.iter().position(|shared| *shared == request);
            match place {
                Some(place) => taken.push(place as u8),
                None if request == RemoteRequest::Pause => self.pause_for_all(),
                None => {}
            }
        }
        taken
    }

    /// Waits until a pause ends; the other ranks wait for this one.
    fn pause_for_all(&mut self) {
        while self.outside.interrupt.signal().is_none() {
            match self.outside.remote.waiting().first() {
                None | Some(RemoteRequest::Pause) => self.pause(),
                Some(_) => return,
            }
        }
    }

    fn serve_outside(&mut self, outside: &[u8]) -> Result<(), Leave> {
        for request in outside {
            match SHARED.get(usize::from(*request)) {
                Some(RemoteRequest::Checkpoint) => self.save_by_key()?,
                Some(RemoteRequest::Validate) => self.validate_by_key()?,
                Some(RemoteRequest::Stop) => self.stop_by_key(),
                _ => {}
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

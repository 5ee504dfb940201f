//! Requests from outside served between two iterations, and what observers are shown.

use std::time::Instant;

use sconce_plugin_api::Phase;

use crate::bridge::StopRequest;
use crate::checkpoint::INTERRUPTED;
use crate::log::Level;
use crate::run::checkpoints::save_options::SaveOptions;
use crate::run::failure::Leave;
use crate::run::outside::remote::BY_KEY;
use crate::run::ranks::state::UpdateStart;
use crate::run::{Interrupt, Now, Observer, Profile, Remote, RemoteRequest, StopSignal, Trainer};

impl Trainer<'_> {
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
}

impl Trainer<'_> {
    /// Serves what was requested on any rank, once the update in progress is finished.
    pub(in crate::run) fn serve_requests_on_ranks(&mut self) -> Result<(), Leave> {
        if self.shared.requests.has_restarts() {
            self.restart_ended()?;
        }
        if !self.is_between_updates() {
            return Ok(());
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.update_start = UpdateStart::of(&self.position);
        }
        self.check_rank_divergence()?;
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
}

impl Trainer<'_> {
    /// Lets `remote` make requests of the run.
    pub fn asked_by(mut self, remote: &Remote) -> Self {
        self.outside.remote = remote.clone();
        self
    }

    /// Serves requests from outside. Must only be called between two iterations.
    #[inline]
    pub(in crate::run) fn grant(&mut self) -> Result<(), Leave> {
        if self.shared.requests.has_restarts() {
            self.restart_ended()?;
        }
        if self.is_asked_to_reload() {
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

    /// Waits for a moment, which does not count towards the pass's time or the training's pace.
    pub(in crate::run) fn pause(&mut self) {
        let begin = Instant::now();
        self.outside.remote.wait();
        let waited = begin.elapsed();
        self.timing.pass.begin += waited;
        self.timing.wall.claim_pause(waited);
        self.shared.clock.pause(waited);
    }
}

impl<'run> Trainer<'run> {
    /// Adds an observer of the run.
    pub fn watched_by(mut self, observer: &'run dyn Observer) -> Self {
        self.outside.observer = Some(observer);
        self
    }
}

impl Trainer<'_> {
    /// Reports the run's progress to the observer.
    #[inline]
    pub(in crate::run) fn show_observer(&self) {
        let Some(observer) = self.outside.observer else {
            return;
        };
        let now = self.now();
        if observer.sees(&now) {
            let pass = Profile::of(&self.timing.pass, self.hooks.hooks(), self.hooks.times());
            observer.sees_times(now.phase, &pass);
        }
    }

    /// Reports a finished pass to the observer.
    pub(in crate::run) fn show_end(&self, phase: Phase, pass: &Profile) {
        if let Some(observer) = self.outside.observer {
            let board = self.shared.read_metrics();
            observer.sees_end(&self.now(), board.of(phase), pass);
        }
    }

    fn now(&self) -> Now {
        let position = &self.position;
        Now {
            phase: position.phase,
            epoch: position.epoch,
            epochs: position.epochs,
            batch: position.pass.batch,
            batches: position.pass.batches,
            iteration: position.iteration,
            samples: position.samples,
            loss: position.pass.loss,
            learning_rate: self.shared.learning_rate.get(),
            elapsed: self.shared.clock.elapsed_seconds(),
            remaining: self.shared.clock.remaining_seconds(),
        }
    }
}

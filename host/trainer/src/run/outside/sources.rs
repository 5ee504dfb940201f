//! Sources of requests from outside the run, and its observer.

use std::time::Instant;

use sconce_lifecycle::{Position, TrainingStage};
use sconce_plugin_api::Phase;

use super::interrupt::{Interrupt, StopSignal};
use super::observer::{Now, Observer};
use super::remote::{Remote, RemoteRequest};
use crate::bridge::BridgeState;
use crate::dispatch::Dispatcher;
use crate::run::Profile;
use crate::run::outside::reloads::ReloadService;
use crate::run::timing::passes::Timing;
use crate::run::timing::profile::PassTimes;

/// Connections of a run to the outside.
#[derive(Default)]
pub(in crate::run) struct Outside<'run> {
    /// Asks the run to end soon.
    pub(in crate::run) interrupt: Interrupt,
    /// Number of epochs after which the run ends to be resumed later, if not before its own end.
    pub(in crate::run) until: Option<u64>,
    /// The signal that asked for the end, once the run has noticed.
    pub(in crate::run) interrupted_by: Option<StopSignal>,
    /// Makes other requests of the run.
    pub(in crate::run) remote: Remote,
    /// Gives hooks new libraries.
    pub(in crate::run) reloads: Option<ReloadService<'run>>,
    /// Observes the run.
    pub(in crate::run) observer: Option<&'run dyn Observer>,
}

impl Outside<'_> {
    /// What asks the run to end here, to be resumed later.
    pub(in crate::run) fn asks_to_end(&self, position: &Position) -> Option<StopSignal> {
        let is_between = position.stage == TrainingStage::Epoch && position.begun.is_none();
        let is_reached = |until| position.epoch >= until && position.epoch < position.epochs;
        let is_due = is_between && self.until.is_some_and(is_reached);
        (self.interrupt.signal()).or_else(|| is_due.then_some(StopSignal::Until))
    }

    /// The next request to be served between two iterations. While the run is paused it is waited for here, until a signal
    /// arrives.
    pub(in crate::run) fn next_request(
        &self,
        is_paused: &mut bool,
        timing: &mut Timing,
        shared: &BridgeState<'_>,
    ) -> Option<RemoteRequest> {
        loop {
            match self.remote.next() {
                Some(RemoteRequest::Pause) => *is_paused = true,
                Some(RemoteRequest::GoOn) => *is_paused = false,
                None if *is_paused && self.interrupt.signal().is_none() => {
                    self.wait(timing, shared);
                }
                next => return next,
            }
        }
    }

    /// Takes the requests that all ranks serve, by their numbers. While the run is paused the other ranks wait for this one.
    pub(in crate::run) fn take_shared_requests(
        &self,
        timing: &mut Timing,
        shared: &BridgeState<'_>,
    ) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(request) = self.remote.next() {
            taken.extend(request.shared_number());
            if request == RemoteRequest::Pause {
                while self.interrupt.signal().is_none()
                    && matches!(
                        self.remote.waiting().first(),
                        None | Some(RemoteRequest::Pause)
                    )
                {
                    self.wait(timing, shared);
                }
            }
        }
        taken
    }

    /// Waits for a moment, which does not count towards the pass's time or the training's pace.
    fn wait(&self, timing: &mut Timing, shared: &BridgeState<'_>) {
        let begin = Instant::now();
        self.remote.wait();
        let waited = begin.elapsed();
        timing.pass.begin += waited;
        timing.wall.claim_pause(waited);
        shared.clock.pause(waited);
    }

    /// Asks for all libraries that have changed.
    pub(in crate::run) fn look_for_libraries(&self, log: &BridgeState<'_>) {
        match &self.reloads {
            Some(service) => {
                log.info("looking for libraries that have changed");
                service.reloader.ask();
            }
            None => log.warn("this run can't load libraries again"),
        }
    }

    /// Reports the run's progress to the observer.
    #[inline]
    pub(in crate::run) fn show(
        &self,
        position: &Position,
        shared: &BridgeState<'_>,
        hooks: &Dispatcher,
        times: &PassTimes,
    ) {
        let Some(observer) = self.observer else {
            return;
        };
        let now = Now::at(position, shared);
        if observer.sees(&now) {
            let pass = Profile::of(times, hooks.hooks(), hooks.times());
            observer.sees_times(now.phase, &pass);
        }
    }

    /// Reports a finished pass to the observer.
    pub(in crate::run) fn show_end(
        &self,
        phase: Phase,
        pass: &Profile,
        position: &Position,
        shared: &BridgeState<'_>,
    ) {
        if let Some(observer) = self.observer {
            let board = shared.read_metrics();
            observer.sees_end(&Now::at(position, shared), board.of(phase), pass);
        }
    }
}

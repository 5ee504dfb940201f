//! Sources of requests from outside the run, and its observer.

use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

use super::interrupt::{Interrupt, StopSignal};
use super::observer::{Now, Observer};
use super::remote::Remote;
use crate::bridge::BridgeState;
use crate::dispatch::Dispatcher;
use crate::run::Profile;
use crate::run::outside::reloads::ReloadService;
use crate::run::timing::profile::PassTimes;

/// Connections of a run to the outside.
#[derive(Default)]
pub(in crate::run) struct Outside<'run> {
    /// Asks the run to end soon.
    pub(in crate::run) interrupt: Interrupt,
    /// The signal that asked for it, once the run has noticed.
    pub(in crate::run) interrupted_by: Option<StopSignal>,
    /// Makes other requests of the run.
    pub(in crate::run) remote: Remote,
    /// Gives hooks new libraries.
    pub(in crate::run) reloads: Option<ReloadService<'run>>,
    /// Observes the run.
    pub(in crate::run) observer: Option<&'run dyn Observer>,
}

impl Outside<'_> {
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

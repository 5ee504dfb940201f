//! Timings of a run.

use std::time::Duration;

use sconce_plugin_api::Phase;

use super::costs::Costs;
use super::profile::{PassTimes, Profile};
use super::wall_time::{RunTimes, Span, WallTime};
use crate::bridge::BridgeState;
use crate::dispatch::{Dispatcher, HookTimes};
use crate::nn::ops::device::waited;

/// Timings of a run's passes.
pub(in crate::run) struct Timing {
    /// Clock readings of the pass in progress.
    pub(in crate::run) pass: PassTimes,
    /// Timings of each phase that ran, summed over its passes.
    pub(in crate::run) profiles: Vec<(Phase, Profile)>,
    /// Where all of the run's time goes.
    pub(in crate::run) wall: WallTime,
    /// Limits above which the costs of hooks cause a warning.
    pub(in crate::run) costs: Costs,
}

impl Timing {
    /// The state before the first pass.
    pub(in crate::run) fn new() -> Timing {
        Timing {
            pass: PassTimes::begin(),
            profiles: Vec::new(),
            wall: WallTime::begin(),
            costs: Costs::default(),
        }
    }

    /// Adds a pass to its phase's timings.
    fn add(&mut self, phase: Phase, pass: Profile) {
        self.wall.claim_pass(pass.total);
        match self.profiles.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, profile)) => profile.add(&pass),
            None => self.profiles.push((phase, pass)),
        }
    }

    /// Begins a pass; hooks' calls until now were outside of passes.
    pub(in crate::run) fn begin_pass(&mut self, phase: Phase, hooks: &mut Dispatcher) {
        self.leave_pass(hooks);
        self.claim_calls(hooks);
        self.pass = PassTimes::begin();
        self.pass.phase = Some(phase);
    }

    /// Ends a pass, and returns its timings; hooks whose costs are high are warned of in `log`.
    pub(in crate::run) fn end_pass(
        &mut self,
        phase: Phase,
        hooks: &mut Dispatcher,
        log: &BridgeState<'_>,
    ) -> Profile {
        let times = hooks.take_times();
        let pass = Profile::of(&self.pass, hooks.hooks(), &times);
        for warning in self.costs.warnings(phase, &pass, &times) {
            log.warn(&warning);
        }
        self.pass.phase = None;
        self.add(phase, pass.clone());
        pass
    }

    /// Counts a pass that was left before its end: the run was rolled back or is over.
    fn leave_pass(&mut self, hooks: &mut Dispatcher) {
        if let Some(phase) = self.pass.phase.take() {
            let times = hooks.take_times();
            let mut pass = Profile::of(&self.pass, hooks.hooks(), &times);
            pass.passes = 0;
            self.add(phase, pass);
        }
    }

    /// Counts the calls of hooks since the last pass.
    fn claim_calls(&mut self, hooks: &mut Dispatcher) {
        let times = hooks.take_times();
        self.wall.claim_calls(None, hooks.hooks(), &times);
    }

    /// Begins work that does not count towards the pass in progress.
    pub(in crate::run) fn begin_service(&mut self, hooks: &mut Dispatcher) -> ServiceTimes {
        ServiceTimes {
            span: self.wall.open(),
            waited_before: waited(),
            pass: std::mem::replace(&mut self.pass, PassTimes::begin()),
            calls: hooks.take_times(),
        }
    }

    /// Ends such work, which counts as served for a hook or, without a name, for the host. Calls of hooks and passes in it
    /// are their own.
    pub(in crate::run) fn end_service(
        &mut self,
        service: ServiceTimes,
        hook: &str,
        hooks: &mut Dispatcher,
    ) {
        self.leave_pass(hooks);
        let times = hooks.take_times();
        self.wall
            .claim_calls(Some(service.span), hooks.hooks(), &times);
        self.wall.claim_request(service.span, hook);
        self.pass = service.pass;
        self.pass
            .leave_out(service.span.begin, service.waited_before);
        hooks.set_times(service.calls);
    }

    /// Where the time went until now.
    pub(in crate::run) fn run_times(&mut self, hooks: &mut Dispatcher) -> RunTimes {
        self.leave_pass(hooks);
        self.claim_calls(hooks);
        let profiles = self.profiles.iter();
        let passes = profiles.map(|(phase, profile)| (*phase, profile.total));
        self.wall.times(passes.collect())
    }
}

/// The clocks of a pass that waits while something is served.
pub(in crate::run) struct ServiceTimes {
    span: Span,
    waited_before: Duration,
    pass: PassTimes,
    calls: Vec<HookTimes>,
}

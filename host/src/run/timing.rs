//! Timings of a run.

use sconce_plugin_api::{Keep, Phase, RUN_TIMES};

use super::Trainer;
use super::costs::Costs;
use super::profile::{PassTimes, Profile};
use super::wall_time::{RunTimes, WallTime};
use crate::bridge::ValueContent;
use crate::nn::ops::device::waited;

/// Timings of a run's passes.
pub(super) struct Timing {
    /// Clock readings of the pass in progress.
    pub(super) pass: PassTimes,
    /// Timings of each phase that ran, summed over its passes.
    pub(super) profiles: Vec<(Phase, Profile)>,
    /// Where all of the run's time goes.
    pub(super) wall: WallTime,
    /// Limits above which the costs of hooks cause a warning.
    pub(super) costs: Costs,
}

impl Timing {
    /// The state before the first pass.
    pub(super) fn new() -> Timing {
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
}

impl Trainer<'_> {
    /// Begins a pass; hooks' calls until now were outside of passes.
    pub(super) fn begin_pass_times(&mut self) {
        self.leave_pass();
        self.claim_calls();
        self.timing.pass = PassTimes::begin();
        self.timing.pass.phase = Some(self.position.phase);
    }

    /// Ends a pass, and returns its timings.
    pub(super) fn end_pass_times(&mut self, phase: Phase) -> Profile {
        let times = self.hooks.take_times();
        let pass = Profile::of(&self.timing.pass, self.hooks.hooks(), &times);
        for warning in self.timing.costs.warnings(phase, &pass, &times) {
            self.shared.warn(&warning);
        }
        self.timing.pass.phase = None;
        self.timing.add(phase, pass.clone());
        pass
    }

    /// Counts a pass that was left before its end: the run was rolled back or is over.
    fn leave_pass(&mut self) {
        if let Some(phase) = self.timing.pass.phase.take() {
            let times = self.hooks.take_times();
            let mut pass = Profile::of(&self.timing.pass, self.hooks.hooks(), &times);
            pass.passes = 0;
            self.timing.add(phase, pass);
        }
    }

    /// Counts the calls of hooks since the last pass.
    fn claim_calls(&mut self) {
        let times = self.hooks.take_times();
        let wall = &mut self.timing.wall;
        wall.claim_calls(None, self.hooks.hooks(), &times);
    }

    /// Does work that a hook has requested, or, without a name, the host: it counts as served for the hook, and not
    /// towards the pass in progress. Calls of hooks and passes in it are their own.
    pub(super) fn serving<T>(&mut self, hook: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let span = self.timing.wall.open();
        let waited_before = waited();
        let pass = std::mem::replace(&mut self.timing.pass, PassTimes::begin());
        let calls = self.hooks.take_times();
        let result = work(self);
        self.leave_pass();
        let times = self.hooks.take_times();
        let wall = &mut self.timing.wall;
        wall.claim_calls(Some(span), self.hooks.hooks(), &times);
        wall.claim_request(span, hook);
        self.timing.pass = pass;
        self.timing.pass.leave_out(span.begin, waited_before);
        self.hooks.set_times(calls);
        result
    }

    /// Publishes where the time went until now.
    pub(super) fn show_times(&mut self) {
        let times = self.run_times().to_json();
        let value = ValueContent::Json(times.to_string().into());
        self.shared.values.set(RUN_TIMES, Keep::Run, None, value);
    }

    /// Where the time went until now.
    pub(super) fn run_times(&mut self) -> RunTimes {
        self.leave_pass();
        self.claim_calls();
        let profiles = self.timing.profiles.iter();
        let passes = profiles.map(|(phase, profile)| (*phase, profile.total));
        self.timing.wall.times(passes.collect())
    }
}

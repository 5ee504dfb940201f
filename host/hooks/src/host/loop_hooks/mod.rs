//! The hooks of a loop that calls them event by event.
//!
//! **Parts.** [`LoopHooks`], in this file, is the hooks, where the loop is, and the calls of one mount point. `steps`: the steps of the
//! lifecycle. `serving`: what hooks request. `modules`: points at the model's modules.
//! `checkpoint`: states of hooks for the loop's checkpoints. `ending`: the ends of a run.

mod checkpoint;
mod ending;
mod modules;
mod serving;
mod steps;

use std::collections::BTreeSet;

use sconce_lifecycle::{Followed, Place, Position, Stopping};
use sconce_plugin_api::{Phase, Point};

use crate::bridge::BridgeState;
use crate::dispatch::Dispatcher;
use crate::host::error::HostResult;
use crate::host::pass_times::PassTimes;
use crate::host::plan::ModulePlan;
use crate::host::requests::{Follows, Loop};
use crate::host::states::LoopState;
use crate::host::swap::Swapped;

/// What its plan says of a loop that its hooks' calls need.
pub(super) struct KnownOfLoop {
    /// Batches of a training epoch.
    pub(super) batches: Option<u64>,
    /// Modules at which hooks are called.
    pub(super) modules: Vec<ModulePlan>,
}

/// The hooks of a loop, called where the loop says that it is.
///
/// Each method is a step of the lifecycle; out of order it is an error that names the call that is missing. What hooks request
/// is served before the method returns: by the host, or by the [`Loop`] that it was given.
pub struct LoopHooks<'log> {
    /// Dropped before `shared`, which they refer to; none once closed.
    hooks: Option<Dispatcher>,
    followed: Followed,
    served: Box<dyn Loop + 'log>,
    /// What the loop follows without being called.
    follows: Follows,
    swapped: Option<Swapped>,
    /// To be restored once the training's `before_loop` has been called.
    resumed: Option<LoopState>,
    times: PassTimes,
    /// Whether a hook is called at `epoch_profile`.
    is_profiled: bool,
    /// Parameters that hooks have frozen.
    frozen: BTreeSet<String>,
    /// Whether `after_cycle` is due before the next epoch.
    is_cycle_open: bool,
    /// Whether the next evaluation was asked for by a hook.
    is_validation_asked: bool,
    known: KnownOfLoop,
    shared: Box<BridgeState<'log>>,
}

impl<'log> LoopHooks<'log> {
    /// Hooks that have been created with the state behind `shared`; `before_run` is called.
    pub(super) fn begin(
        hooks: Dispatcher,
        shared: Box<BridgeState<'log>>,
        followed: Followed,
        (served, follows): (Box<dyn Loop + 'log>, Follows),
        resumed: Option<LoopState>,
        known: KnownOfLoop,
    ) -> HostResult<LoopHooks<'log>> {
        let is_profiled = hooks.is_subscribed(Point::EpochProfile, Phase::Train);
        let mut begun = LoopHooks {
            hooks: Some(hooks),
            followed,
            served,
            follows,
            swapped: None,
            resumed,
            times: PassTimes::begin(),
            is_profiled,
            frozen: BTreeSet::new(),
            is_cycle_open: false,
            is_validation_asked: false,
            known,
            shared,
        };
        if let Some(state) = &begun.resumed {
            state.show_counters(begun.followed.position_mut());
        }
        begun.followed.begin_run()?;
        begun.call(Point::BeforeRun)?;
        Ok(begun)
    }

    /// What hooks see of the loop, for showing tensors, metrics and rates.
    pub fn shared(&self) -> &BridgeState<'log> {
        &self.shared
    }

    /// The counters, as hooks see them.
    pub fn position(&self) -> &Position {
        self.followed.position()
    }

    /// Batches of a training epoch, if the plan says.
    pub(super) fn planned_batches(&self) -> Option<u64> {
        self.known.batches
    }

    /// Whether a pass over the training data is in progress.
    pub fn is_in_epoch(&self) -> bool {
        let is_training = self.followed.position().phase == Phase::Train;
        is_training && matches!(self.followed.place(), Place::Pass | Place::Batch(_))
    }

    /// Where the loop is.
    pub fn place(&self) -> Place {
        self.followed.place()
    }

    /// The first call of the batch in progress that is still missing.
    pub fn missing(&self) -> Option<Point> {
        self.followed.missing()
    }

    /// Whether a hook is called at this point in the phase of now: if not, nothing need be shown there.
    #[inline]
    pub fn listens(&self, point: Point) -> bool {
        self.hooks
            .as_ref()
            .is_some_and(|hooks| hooks.is_subscribed(point, self.followed.position().phase))
    }

    /// Whether a hook is called at this point in any phase, though not now perhaps.
    pub fn listens_ever(&self, point: Point) -> bool {
        let mut hooks = self.hooks.iter().flat_map(Dispatcher::hooks);
        hooks.any(|hook| hook.spec.points.contains(&point))
    }

    /// Whether hooks want the training to end.
    pub fn stopping(&self) -> Stopping {
        let requests = &self.shared.requests;
        if !requests.stops() {
            Stopping::No
        } else if requests.stops_now() {
            Stopping::Now
        } else {
            Stopping::AfterEpoch
        }
    }

    /// Why the training is to end, and which hook wants it; none if none does.
    pub fn stop_reason(&self) -> Option<(String, String)> {
        self.shared
            .requests
            .stop()
            .map(|stop| (stop.hook, stop.reason))
    }

    /// The learning rate of the default group, which hooks may have set.
    pub fn learning_rate(&self) -> f64 {
        self.shared.optimizer.learning_rate.get()
    }

    /// Shows learning rates that the loop has set itself, by a schedule of its own; groups of other names are left as they are.
    pub fn set_learning_rates(&self, rates: &[(String, f64)]) {
        let mut groups = self.shared.optimizer.groups.borrow_mut();
        for (name, rate) in rates {
            drop(groups.set_learning_rate_of(name, *rate));
        }
        self.shared
            .optimizer
            .learning_rate
            .set(groups.default().learning_rate);
    }

    /// Sets a metric of the pass in progress, as it is after the batches until now.
    pub fn metric(&self, name: &str, value: f64) {
        let phase = self.followed.position().phase;
        self.shared.metrics.borrow_mut().set(phase, name, value);
    }

    /// Whether hooks have frozen the parameter of this name: the loop leaves it out of its update.
    pub fn is_frozen(&self, name: &str) -> bool {
        !self.frozen.is_empty() && self.frozen.contains(name)
    }

    /// Names of the parameters that hooks have frozen.
    pub fn frozen(&self) -> Vec<String> {
        self.frozen.iter().cloned().collect()
    }

    /// What the hooks may read of the loop, by [`Readable::name`](sconce_plugin_api::ext::Readable::name); `None` if one of them does
    /// not say.
    pub fn reads(&self) -> Option<Vec<String>> {
        let mut all = BTreeSet::new();
        for hook in self.hooks.iter().flat_map(Dispatcher::hooks) {
            all.extend(hook.spec.reads.as_ref()?.iter().cloned());
        }
        Some(all.into_iter().collect())
    }

    /// The requests that the hooks may make, by [`Request::name`](sconce_plugin_api::ext::Request::name); `None` if one of them
    /// does not say.
    pub fn asks(&self) -> Option<Vec<String>> {
        let mut all = BTreeSet::new();
        for hook in self.hooks.iter().flat_map(Dispatcher::hooks) {
            all.extend(hook.spec.asks.as_ref()?.iter().cloned());
        }
        Some(all.into_iter().collect())
    }

    #[inline]
    fn reach(&mut self, point: Point) -> HostResult {
        self.followed.reach(point)?;
        self.call_timed(point)
    }

    #[inline]
    fn call_timed(&mut self, point: Point) -> HostResult {
        if !self.is_profiled {
            return self.call(point);
        }
        self.times.reach(point);
        let called = self.call(point);
        self.times.leave();
        called
    }

    /// Calls the hooks of a point and serves their requests.
    #[inline]
    fn call(&mut self, point: Point) -> HostResult {
        let Some(hooks) = &mut self.hooks else {
            return Ok(());
        };
        hooks.call(point, self.followed.position(), &self.shared)?;
        self.serve()
    }

    #[inline]
    fn serve(&mut self) -> HostResult {
        if self.shared.requests.is_pending() {
            return self.serve_pending();
        }
        Ok(())
    }
}

//! The hooks of a loop that calls them event by event.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use sconce_lifecycle::{Followed, Place, Position, Stopping};
use sconce_plugin_api::abi::{CheckpointAbi, FailureAbi, OutcomeAbi, TextAbi};
use sconce_plugin_api::ext::{Asked, Request, serving_order};
use sconce_plugin_api::{Keep, Phase, Point};

use super::error::{HostError, HostResult};
use super::pass_times::{PassTimes, hook_times};
use super::requests::{Follows, Loop, Served};
use super::states::LoopState;
use super::swap::{Swapped, exchange};
use crate::bridge::BridgeState;
use crate::dispatch::{Dispatcher, Payload};
use crate::metric_board::WeightsId;

/// Tag of a checkpoint that the loop saves by itself.
const OWN_TAG: &str = "loop";

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
    /// Batches of a training epoch, if the plan says.
    planned_batches: Option<u64>,
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
        planned_batches: Option<u64>,
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
            planned_batches,
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
        self.planned_batches
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
        self.shared.learning_rate.get()
    }

    /// The training begins, unless it has: `before_loop`, and then the states that the hooks resume with.
    ///
    /// # Errors
    ///
    /// If a hook fails, or the states can't be restored.
    pub fn begin_training(&mut self) -> HostResult {
        if self.followed.place() != Place::Begun {
            return Ok(());
        }
        self.followed.begin_training()?;
        self.call(Point::BeforeLoop)?;
        if let Some(state) = self.resumed.take() {
            self.put_back(&state)?;
        }
        Ok(())
    }

    /// An epoch begins, of this many batches if that is known: `before_epoch`, after `after_cycle` of the one before.
    ///
    /// # Errors
    ///
    /// If a hook fails, or the loop is elsewhere.
    pub fn begin_epoch(&mut self, batches: Option<u64>) -> HostResult {
        self.begin_training()?;
        self.end_cycle()?;
        self.restore_parameters("the training continues")?;
        let begun = self.followed.begin_epoch(batches)?;
        let Some(start) = begun else {
            self.reset_pass(Phase::Train);
            self.shared.values.forget(Keep::Epoch);
            return self.call(Point::BeforeEpoch);
        };
        // What hooks change and request here took effect when the epoch began.
        self.times = PassTimes::begin();
        let groups = self.shared.groups.borrow().clone();
        let requests = self.shared.requests.set_aside();
        let now = self.followed.show_start(start);
        let called = self.call(Point::BeforeEpoch);
        self.followed.show_again(now);
        self.shared.requests.put_back(requests);
        self.shared.set_groups(&groups);
        called
    }

    fn reset_pass(&mut self, phase: Phase) {
        self.shared.metrics.borrow_mut().begin(phase);
        self.times = PassTimes::begin();
        if let Some(hooks) = &mut self.hooks {
            hooks.take_times();
        }
    }

    /// A batch of this many samples begins: `before_iter`. `updates`: whether an update follows it; none if that follows from the
    /// number of batches per update. Returns whether a hook wants the batch to be skipped: [`end_batch`](LoopHooks::end_batch)
    /// comes next then.
    ///
    /// # Errors
    ///
    /// If a hook fails, or the batch before has not ended.
    #[inline]
    pub fn begin_batch(&mut self, samples: u64, updates: Option<bool>) -> HostResult<bool> {
        let requested = self.shared.accumulation.get();
        self.followed.begin_batch(samples, updates, requested)?;
        self.call_timed(Point::BeforeIter)?;
        let is_skipped = self.shared.requests.take_skip_batch();
        if is_skipped {
            self.followed.skip_batch();
        }
        Ok(is_skipped)
    }

    /// The model's outputs are there: `after_forward`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    #[inline]
    pub fn after_forward(&mut self) -> HostResult {
        self.reach(Point::AfterForward)
    }

    /// The batch's loss is there, a mean over its samples: `after_loss`. It counts for the mean of the pass, by samples; a loop that
    /// does not know it says so by `None`. Returns the factor by which hooks want it multiplied before the backward pass.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    #[inline]
    pub fn after_loss(&mut self, loss: Option<f64>) -> HostResult<f64> {
        self.followed.position_mut().pass.loss = loss;
        if let Some(loss) = loss {
            self.count_loss(loss);
        }
        self.reach(Point::AfterLoss)?;
        Ok(self.shared.requests.take_loss_scale())
    }

    /// Counts a batch's loss for the mean of its pass.
    fn count_loss(&mut self, loss: f64) {
        let position = self.followed.position();
        let (phase, samples) = (position.phase, position.pass.batch_size as f64);
        let mut metrics = self.shared.metrics.borrow_mut();
        let (sums, all) = metrics.sums(phase, 1);
        *all += samples;
        let mut mean = loss;
        if let [sum] = sums {
            *sum += loss * samples;
            mean = *sum / *all;
        }
        metrics.set(phase, "loss", mean);
    }

    /// Sets a metric of the pass in progress, as it is after the batches until now.
    pub fn metric(&self, name: &str, value: f64) {
        let phase = self.followed.position().phase;
        self.shared.metrics.borrow_mut().set(phase, name, value);
    }

    /// The batch's gradients are there: `after_backward`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    #[inline]
    pub fn after_backward(&mut self) -> HostResult {
        self.reach(Point::AfterBackward)
    }

    /// The gradients of the update are complete: `before_update`. Returns whether a hook wants the update to be skipped.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    #[inline]
    pub fn before_update(&mut self) -> HostResult<bool> {
        self.reach(Point::BeforeUpdate)?;
        if self.is_profiled {
            self.times.leave();
        }
        Ok(self.shared.requests.take_skip_update())
    }

    /// The optimizer has stepped: `after_update`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or `before_update` was not called.
    #[inline]
    pub fn after_update(&mut self) -> HostResult {
        self.reach(Point::AfterUpdate)
    }

    /// The batch is over: `after_iter`. Returns whether hooks want the training to end.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    #[inline]
    pub fn end_batch(&mut self) -> HostResult<Stopping> {
        self.followed.reach(Point::AfterIter)?;
        let is_training = self.followed.position().phase == Phase::Train;
        if is_training {
            self.shared
                .clock
                .advance(self.followed.position().iteration);
        }
        self.call_timed(Point::AfterIter)?;
        self.followed.end_batch();
        self.shared.tensors.clear_batch();
        self.shared.tensors.foreign.clear_batch();
        self.shared.values.end_batch();
        Ok(self.stopping())
    }

    /// The epoch ends: `after_epoch` and `epoch_profile`. `is_complete`: whether it had all its batches; none if as many as were
    /// announced.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch is in progress.
    pub fn end_epoch(&mut self, is_complete: Option<bool>) -> HostResult {
        self.followed.end_epoch(is_complete)?;
        self.is_cycle_open = true;
        self.end_pass(Phase::Train)
    }

    fn end_pass(&mut self, phase: Phase) -> HostResult {
        let Position {
            epoch,
            iteration,
            update,
            ..
        } = *self.followed.position();
        let weights = WeightsId {
            epoch,
            iteration,
            update,
            set: self.swapped.as_ref().map(|swapped| swapped.set.clone()),
        };
        self.shared.metrics.borrow_mut().end(phase, weights);
        self.call(Point::AfterEpoch)?;
        if !self.is_profiled {
            return Ok(());
        }
        let Some(hooks) = &mut self.hooks else {
            return Ok(());
        };
        let times = hooks.take_times();
        let hook_times = hook_times(hooks.hooks(), &times);
        let profile = self.times.payload(&hook_times);
        hooks.call_with(
            Point::EpochProfile,
            Payload::Profile(&profile),
            self.followed.position(),
            &self.shared,
        )?;
        self.serve()
    }

    /// The epoch and its validation are over: `after_cycle`, if it is due.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch is in progress.
    pub fn end_cycle(&mut self) -> HostResult {
        if !std::mem::take(&mut self.is_cycle_open) {
            return Ok(());
        }
        self.followed.end_cycle()?;
        self.call(Point::AfterCycle)
    }

    /// The training ends: `after_loop`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or an epoch is in progress.
    pub fn end_training(&mut self) -> HostResult {
        if self.followed.place() == Place::Begun {
            return Ok(());
        }
        self.end_cycle()?;
        self.followed.end_training()?;
        self.call(Point::AfterLoop)
    }

    /// A validation, test or prediction begins, of this many batches if that is known: `before_loop`, `before_epoch`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch or another evaluation is in progress.
    pub fn begin_evaluation(&mut self, phase: Phase, batches: Option<u64>) -> HostResult {
        let is_asked = std::mem::take(&mut self.is_validation_asked);
        self.followed.begin_evaluation(phase, is_asked)?;
        self.call(Point::BeforeLoop)?;
        self.reset_pass(phase);
        self.followed.begin_evaluation_pass(batches);
        self.call(Point::BeforeEpoch)
    }

    /// The evaluation ends: `after_epoch`, `epoch_profile`, `after_loop`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch is in progress.
    pub fn end_evaluation(&mut self) -> HostResult {
        self.followed.end_evaluation_pass()?;
        self.end_pass(self.followed.position().phase)?;
        self.followed.count_evaluation();
        self.call(Point::AfterLoop)?;
        self.followed.end_evaluation();
        Ok(())
    }

    /// The run ends: `after_loop` if it is due, `after_run`, and the hooks are dropped.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a batch or a pass is in progress.
    pub fn finish(mut self) -> HostResult {
        self.end_training()?;
        let outcome = match self.shared.requests.stop() {
            Some(stop) => (1, stop.reason),
            None => (0, String::new()),
        };
        self.end_run(outcome)
    }

    /// The run has failed for a reason of the loop's: `on_exception`, `after_run`, and the hooks are dropped.
    ///
    /// # Errors
    ///
    /// If a hook fails, too.
    pub fn fail(mut self, message: &str) -> HostResult {
        self.announce_failure(message);
        self.end_run((2, message.to_owned()))
    }

    fn announce_failure(&mut self, message: &str) {
        let Some(hooks) = &mut self.hooks else {
            return;
        };
        let payload = FailureAbi {
            origin: 0,
            message: TextAbi::new(message),
            hook: TextAbi::new(""),
        };
        let payload = Payload::Failure(&payload);
        let position = self.followed.position();
        let faults = hooks.call_every_with(Point::OnException, payload, position, &self.shared);
        for fault in faults {
            self.shared.warn(&fault.to_string());
        }
    }

    fn end_run(&mut self, (kind, reason): (u32, String)) -> HostResult {
        let swapped_back = self.restore_parameters("the run ends");
        let ended = self.followed.end_run();
        let Some(mut hooks) = self.hooks.take() else {
            return Ok(());
        };
        let payload = OutcomeAbi {
            kind,
            reason: TextAbi::new(&reason),
        };
        let payload = Payload::Outcome(&payload);
        let position = self.followed.position();
        let mut faults = hooks.call_every_with(Point::AfterRun, payload, position, &self.shared);
        faults.extend(hooks.close(&self.shared));
        swapped_back?;
        ended?;
        match faults.into_iter().next() {
            Some(fault) => Err(HostError::Hook(Box::new(fault))),
            None => Ok(()),
        }
    }

    /// The hooks' states, with the loop's counters, for a checkpoint that the loop saves by itself: `before_save_checkpoint`.
    /// [`saved`](LoopHooks::saved) comes next.
    ///
    /// # Errors
    ///
    /// If a hook fails, or what it has published can't be written.
    pub fn states(&mut self) -> HostResult<Vec<u8>> {
        self.collect(OWN_TAG, "")
    }

    /// The checkpoint with [`states`](LoopHooks::states) is on disk at `path`, or could not be written: `after_save_checkpoint`.
    ///
    /// # Errors
    ///
    /// If a hook fails.
    pub fn saved(&mut self, path: &Path, written: &Served) -> HostResult {
        self.announce_saved((path, OWN_TAG, ""), written, 0.0)
    }

    fn collect(&mut self, tag: &str, hook: &str) -> HostResult<Vec<u8>> {
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        self.announce(
            Point::BeforeSaveCheckpoint,
            &saving((Path::new(""), "", tag, hook), ""),
        )?;
        let Some(hooks) = &mut self.hooks else {
            return Err(HostError::States("the run has ended".to_owned()));
        };
        let states = hooks.save_states(&self.shared)?;
        let state = LoopState::of(
            hooks,
            states,
            self.followed.position(),
            self.swapped.as_ref(),
            &self.frozen,
            &self.shared,
        )?;
        state.to_bytes().map_err(HostError::States)
    }

    fn announce_saved(
        &mut self,
        (path, tag, hook): (&Path, &str, &str),
        written: &Served,
        seconds: f64,
    ) -> HostResult {
        let text = path.to_string_lossy();
        let error = written.as_ref().err().map_or("", String::as_str);
        let payload = CheckpointAbi {
            seconds,
            ..saving((path, &text, tag, hook), error)
        };
        let announced = self.announce(Point::AfterSaveCheckpoint, &payload);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        announced
    }

    fn announce(&mut self, point: Point, payload: &CheckpointAbi) -> HostResult {
        if let Some(hooks) = &mut self.hooks {
            let payload = Payload::Checkpoint(payload);
            hooks.call_with(point, payload, self.followed.position(), &self.shared)?;
        }
        self.serve()
    }

    /// Restores states that [`states`](LoopHooks::states) has collected: now, or if the training has not begun, after its
    /// `before_loop`. The model's parameters and the optimizer's state are the loop's own.
    ///
    /// # Errors
    ///
    /// If the bytes are not such states, or a hook fails.
    pub fn restore(&mut self, states: &[u8]) -> HostResult {
        let state = LoopState::read(states).map_err(HostError::States)?;
        if matches!(self.followed.place(), Place::Created | Place::Begun) {
            state.show_counters(self.followed.position_mut());
            self.resumed = Some(state);
            return Ok(());
        }
        // The loop has overwritten what was swapped.
        self.swapped = None;
        self.put_back(&state)
    }

    fn put_back(&mut self, state: &LoopState) -> HostResult {
        let Some(hooks) = &mut self.hooks else {
            return Err(HostError::States("the run has ended".to_owned()));
        };
        let position = self.followed.position_mut();
        state.put_back(hooks, position, &mut self.frozen, &self.shared)?;
        if let Some(set) = &state.swapped {
            // The checkpoint's parameters were those of the set.
            exchange(set, &self.shared).map_err(HostError::States)?;
        }
        let payload = saving((Path::new(""), "", OWN_TAG, ""), "");
        let announced = self.announce(Point::AfterLoadCheckpoint, &payload);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        announced
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

    #[cold]
    fn serve_pending(&mut self) -> HostResult {
        let mut asked = self.shared.requests.take_asked();
        serving_order(&mut asked, |(asked, _)| asked);
        for (asked, hook) in asked {
            let (what, served) = self.serve_one(asked, &hook)?;
            if let Err(reason) = served {
                self.blame(&hook, &format!("can't {what}: {reason}"))?;
            }
        }
        Ok(())
    }

    /// Serves a request; returns what it was, and whether it was served.
    fn serve_one(&mut self, asked: Asked, hook: &str) -> HostResult<(String, Served)> {
        if self.followed.position().is_reopening {
            // It was served when the epoch began.
            return Ok((String::new(), Ok(())));
        }
        let unserved = |served: &dyn Loop, request: Request| {
            let refused = served.can(request);
            refused.and_then(|()| Err("the loop says that it can, and does not".to_owned()))
        };
        Ok(match asked {
            Asked::Save { tag, .. } => (format!("save `{tag}`"), self.save(&tag, hook)?),
            Asked::Validate => {
                let served = self.served.validate();
                self.is_validation_asked = served.is_ok();
                ("validate".to_owned(), served)
            }
            Asked::Swap(set) => (
                format!("swap the parameters for `{set}`"),
                self.swap(&set, hook),
            ),
            Asked::SwapBack => ("swap the parameters back".to_owned(), self.swap_back()),
            Asked::LoadParameters { tag, set } => {
                let served = self.served.load_parameters(&tag, set.as_deref());
                (format!("load the parameters of `{tag}`"), served)
            }
            Asked::Delete(tag) => {
                let served = self.served.delete(&tag);
                (format!("delete the checkpoint `{tag}`"), served)
            }
            Asked::Copy { from, to } => {
                let served = self.served.copy(&from, &to);
                (format!("copy the checkpoint `{from}` to `{to}`"), served)
            }
            Asked::Freeze { name, ratio } => {
                let served = self.freeze(&name, ratio);
                (format!("train `{name}` at {ratio} of its rate"), served)
            }
            Asked::Listen(listens) => {
                if let Some(hooks) = &mut self.hooks {
                    hooks.set_listening(hook, listens);
                }
                (String::new(), Ok(()))
            }
            Asked::RollBack(tag) => {
                let refused = unserved(&*self.served, Request::RollBack);
                (format!("roll back to `{tag}`"), refused)
            }
            Asked::Publish { tag, .. } => {
                let refused = unserved(&*self.served, Request::PublishWeights);
                (format!("publish the weights of `{tag}`"), refused)
            }
            Asked::Renew(_) => {
                let refused = unserved(&*self.served, Request::RenewStatistics);
                ("recompute statistics".to_owned(), refused)
            }
            // All others have taken effect already.
            _ => (String::new(), Ok(())),
        })
    }

    fn save(&mut self, tag: &str, hook: &str) -> HostResult<Served> {
        if let Err(reason) = self.served.can(Request::SaveCheckpoint) {
            return Ok(Err(reason));
        }
        let start = Instant::now();
        let states = self.collect(tag, hook)?;
        let written = self.served.save(tag, &states);
        let seconds = start.elapsed().as_secs_f64();
        self.announce_saved((Path::new(tag), tag, hook), &written, seconds)?;
        Ok(written)
    }

    fn swap(&mut self, set: &str, hook: &str) -> Served {
        if let Some(swapped) = &self.swapped {
            return Err(format!(
                "they are swapped for `{}` already, by `{}`",
                swapped.set, swapped.hook
            ));
        }
        exchange(set, &self.shared)?;
        self.swapped = Some(Swapped {
            set: set.to_owned(),
            hook: hook.to_owned(),
        });
        Ok(())
    }

    fn swap_back(&mut self) -> Served {
        match self.swapped.take() {
            Some(swapped) => exchange(&swapped.set, &self.shared),
            None => Err("they are in their place".to_owned()),
        }
    }

    /// Swaps the parameters back if they are swapped, which is the fault of the hook that has asked for it.
    fn restore_parameters(&mut self, when: &str) -> HostResult {
        let Some(swapped) = self.swapped.take() else {
            return Ok(());
        };
        exchange(&swapped.set, &self.shared).map_err(HostError::Loop)?;
        if self.followed.place() == Place::Begun {
            return Ok(());
        }
        self.blame(
            &swapped.hook,
            &format!(
                "the parameters are still swapped for `{}` when {when}; ask for `swap_back` at `{}` or before",
                swapped.set,
                Point::AfterCycle
            ),
        )
    }

    fn freeze(&mut self, name: &str, ratio: f64) -> Served {
        let is_whole = ratio == 0.0 || (ratio - 1.0).abs() < f64::EPSILON;
        if !is_whole {
            return Err(
                "a loop of its own has one learning rate for all parameters of a group: only 0 and 1 can be served"
                    .to_owned(),
            );
        }
        if !self.follows.has(Request::Freeze) {
            self.served.can(Request::Freeze)?;
        }
        if ratio == 0.0 {
            self.frozen.insert(name.to_owned());
        } else {
            self.frozen.remove(name);
        }
        Ok(())
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

    /// The requests that the hooks may make, by [`Request::name`]; `None` if one of them does not say.
    pub fn asks(&self) -> Option<Vec<String>> {
        let mut all = BTreeSet::new();
        for hook in self.hooks.iter().flat_map(Dispatcher::hooks) {
            all.extend(hook.spec.asks.as_ref()?.iter().cloned());
        }
        Some(all.into_iter().collect())
    }

    /// The loop has come by mount points of the batch in progress at which no hook is called, in their order: by bits, from 1 for
    /// `after_forward` to 16 for `after_update`. A binding to a slow language makes one call of several so.
    ///
    /// # Errors
    ///
    /// If a call is missing.
    pub fn pass_by(&mut self, points: u8, loss: Option<f64>) -> HostResult {
        if points & 1 != 0 {
            self.after_forward()?;
        }
        if points & 2 != 0 {
            self.after_loss(loss)?;
        }
        if points & 4 != 0 {
            self.after_backward()?;
        }
        if points & 8 != 0 {
            self.before_update()?;
        }
        if points & 16 != 0 {
            self.after_update()?;
        }
        Ok(())
    }

    /// Shows learning rates that the loop has set itself, by a schedule of its own; groups of other names are left as they are.
    pub fn set_learning_rates(&self, rates: &[(String, f64)]) {
        let mut groups = self.shared.groups.borrow_mut();
        for (name, rate) in rates {
            drop(groups.set_learning_rate_of(name, *rate));
        }
        self.shared
            .learning_rate
            .set(groups.default().learning_rate);
    }

    fn blame(&mut self, hook: &str, message: &str) -> HostResult {
        if let Some(hooks) = &mut self.hooks {
            hooks.blame(hook, self.followed.position(), message, &self.shared)?;
        }
        Ok(())
    }
}

/// What hooks are given of a checkpoint.
fn saving((_, path, tag, hook): (&Path, &str, &str, &str), error: &str) -> CheckpointAbi {
    CheckpointAbi {
        path: TextAbi::new(path),
        tag: TextAbi::new(tag),
        hook: TextAbi::new(hook),
        error: TextAbi::new(error),
        bytes: 0,
        seconds: 0.0,
        reference: TextAbi::new(""),
        missing: TextAbi::new(""),
    }
}

impl Drop for LoopHooks<'_> {
    /// A loop that was left by an error of its own: hooks are told, and close what they have open.
    fn drop(&mut self) {
        if self.hooks.is_some() {
            let message = "the loop ended without `finish`";
            self.announce_failure(message);
            drop(self.end_run((2, message.to_owned())));
        }
    }
}

//! The steps of the lifecycle: each is checked, counted, and its hooks are called.

use sconce_lifecycle::{Place, Position, Stopping};
use sconce_plugin_api::{Keep, Phase, Point};

use super::LoopHooks;
use crate::dispatch::Payload;
use crate::host::error::HostResult;
use crate::host::pass_times::{PassTimes, hook_times};
use crate::metric_board::WeightsId;

impl LoopHooks<'_> {
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
        let groups = self.shared.optimizer.groups.borrow().clone();
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
        let requested = self.shared.optimizer.accumulation.get();
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
}

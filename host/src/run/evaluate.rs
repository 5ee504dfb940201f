//! Passes that change no parameters: validation and test.

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point};

use super::{RunError, Trainer};
use crate::checkpoint::Stage;
use crate::data::{Loader, order};

/// A validation or test, as far as checkpoints must know of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evaluation {
    /// Its pass over the data is not over: saves wait for its end.
    pub(super) is_under_way: bool,
    /// A hook has asked for it.
    pub(super) is_asked_for: bool,
    /// It is over, and the epoch's ordinal does not count it yet.
    pub(super) is_uncounted: bool,
}

impl Trainer<'_> {
    /// One pass over the data of `phase`, in its natural order.
    ///
    /// A stop asked for meanwhile waits for its end, so that metrics are always whole.
    pub(super) fn evaluate(&mut self, phase: Phase, initial: bool) -> Result<(), RunError> {
        let Some(data) = self.task.data(phase) else {
            return Ok(());
        };
        let data = data.plain().unwrap_or(data);
        let outer = Outer::of(&self.view);
        if initial {
            self.view.flags |= ViewAbi::INITIAL;
        }
        self.enter(phase);
        self.evaluation.is_under_way = true;
        self.call(Point::BeforeLoop)?;
        self.shared.metrics.borrow_mut().begin(phase);
        let size = self.plan.eval_batch_size;
        self.begin_pass(data.len().div_ceil(size) as u64);
        self.show();
        self.call(Point::BeforeEpoch)?;
        let starts = (0..data.len()).step_by(size);
        let batches = starts
            .map(|start| start..data.len().min(start + size))
            .collect();
        let (epoch, preparation) = (self.view.epoch, self.plan.preparation);
        let order = order::natural(data.len());
        let mut loader = Loader::new(data, order, batches, epoch, preparation);
        while let Some(batch) = self.next_batch(&mut loader)? {
            self.view.batch_size = batch.len() as u64;
            self.view.flags &= !ViewAbi::HAS_LOSS;
            let tensors = &self.shared.tensors;
            tensors.set_batch(&batch.inputs, &batch.targets, &batch.indices);
            self.call(Point::BeforeIter)?;
            if !self.shared.requests.take_skip_batch() {
                self.forward(&batch, phase)?;
            }
            self.view.batch += 1;
            self.call(Point::AfterIter)?;
            self.end_batch();
            self.show();
        }
        self.end_pass(phase)?;
        self.evaluation.is_under_way = false;
        self.count_validation(phase, initial);
        self.call(Point::AfterLoop)?;
        for (tag, hook, manner) in std::mem::take(&mut self.waiting) {
            self.save(&tag, &hook, manner)?;
        }
        self.view.flags &= !ViewAbi::INITIAL;
        self.enter(Phase::Train);
        outer.restore(&mut self.view);
        Ok(())
    }

    /// From here on checkpoints say that this evaluation is over.
    fn count_validation(&mut self, phase: Phase, initial: bool) {
        if phase != Phase::Val {
            return;
        }
        self.evaluation.is_uncounted = !initial;
        self.stage = match self.stage {
            Stage::Start if initial => Stage::Epoch,
            // One that a hook has asked for in the midst of an epoch is no stage of it.
            Stage::Validation if !self.evaluation.is_asked_for => Stage::Cycle,
            other => other,
        };
    }
}

/// What the view shows of the pass around an evaluation.
struct Outer {
    batch: u64,
    batches: u64,
    batch_size: u64,
    loss: f64,
    flags: u64,
}

impl Outer {
    /// The flags that belong to a pass.
    const FLAGS: u64 = ViewAbi::HAS_LOSS | ViewAbi::UPDATES;

    fn of(view: &ViewAbi) -> Outer {
        Outer {
            batch: view.batch,
            batches: view.batches,
            batch_size: view.batch_size,
            loss: view.loss,
            flags: view.flags & Self::FLAGS,
        }
    }

    fn restore(self, view: &mut ViewAbi) {
        view.batch = self.batch;
        view.batches = self.batches;
        view.batch_size = self.batch_size;
        view.loss = self.loss;
        view.flags = view.flags & !Self::FLAGS | self.flags;
    }
}

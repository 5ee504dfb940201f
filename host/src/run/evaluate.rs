//! Passes that don't change parameters: validation and test.

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point};

use super::evaluation::InterruptedPass;
use super::{RunError, Trainer};
use crate::checkpoint::{PassState, TrainingStage};
use crate::data::{Loader, order};

impl Trainer<'_> {
    /// The view's state of the training pass, also while an evaluation interrupts it.
    pub(super) fn training_pass(&self) -> InterruptedPass {
        self.evaluation
            .outer
            .unwrap_or_else(|| InterruptedPass::of(&self.view))
    }

    /// Restores the view's state of the training pass from a checkpoint.
    pub(super) fn restore_pass(&mut self, state: Option<&PassState>) {
        let state = state.cloned().unwrap_or_default();
        self.view.flags &= !InterruptedPass::FLAGS;
        if let Some(loss) = state.loss {
            self.view.loss = loss.0;
            self.view.flags |= ViewAbi::HAS_LOSS;
        }
        if state.updates {
            self.view.flags |= ViewAbi::UPDATES;
        }
        self.view.batch_size = state.batch_size;
        self.position.begun = state.begun;
    }

    /// Runs one pass over the data of `phase`, in its natural order.
    ///
    /// A stop requested in the meantime takes effect after the pass, so that metrics are always complete.
    pub(super) fn evaluate(&mut self, phase: Phase, initial: bool) -> Result<(), RunError> {
        let Some(data) = self.task.data(phase) else {
            return Ok(());
        };
        let data = data.plain().unwrap_or(data);
        let outer = InterruptedPass::of(&self.view);
        self.evaluation.outer = Some(outer);
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
        self.sets.measured = (self.sets.swapped.as_ref()).map(|swapped| swapped.set().to_owned());
        self.evaluation.is_under_way = false;
        self.count_validation(phase, initial);
        self.call(Point::AfterLoop)?;
        for (tag, hook, manner) in std::mem::take(&mut self.saver.waiting) {
            self.save(&tag, &hook, manner)?;
        }
        self.view.flags &= !ViewAbi::INITIAL;
        self.enter(Phase::Train);
        outer.restore(&mut self.view);
        self.evaluation.outer = None;
        Ok(())
    }

    /// From here on, checkpoints record that this evaluation is finished.
    fn count_validation(&mut self, phase: Phase, initial: bool) {
        if phase != Phase::Val {
            return;
        }
        self.evaluation.is_uncounted = !initial;
        self.position.stage = match self.position.stage {
            TrainingStage::Start if initial => TrainingStage::Epoch,
            // A validation requested by a hook in the middle of an epoch is not a stage of the cycle.
            TrainingStage::Validation if !self.evaluation.is_asked_for => TrainingStage::Cycle,
            other => other,
        };
    }
}

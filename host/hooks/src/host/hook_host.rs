//! The hooks of a candle loop: batches come out of passes, and each batch's step takes what the loop has computed.

use std::path::Path;

use sconce_lifecycle::{Position, Stopping};
use sconce_parameters::Parameters;
use sconce_plugin_api::Phase;

use super::error::HostResult;
use super::inner::{Inner, LoopCell};
use super::loop_hooks::LoopHooks;
use super::pass::{IntoBatch, Pass};
use super::requests::Served;

/// The hooks of a candle loop that somebody else has written.
///
/// ```no_run
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{AdamW, Linear, Module, Optimizer, VarBuilder, VarMap, linear, loss};
/// use sconce_hooks::host::{HookHost, HostResult, LoopPlan};
/// use sconce_plugin_api::ext::Request;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::Cpu;
/// let map = VarMap::new();
/// let model = linear(4, 2, VarBuilder::from_varmap(&map, DType::F32, &device))?;
/// let mut optimizer = AdamW::new_lr(map.all_vars(), 1e-3)?;
/// let batch = (Tensor::zeros((8, 4), DType::F32, &device)?, Tensor::zeros(8, DType::U32, &device)?);
///
/// let entries = map.data().lock().expect("one thread").clone();
/// let mut hooks = HookHost::from_file("hooks.json")?
///     .parameters(entries)
///     .plan(LoopPlan::new(3, 1e-3).batches(1))
///     .follows(Request::SetLearningRate)
///     .start()?;
/// while hooks.next_epoch()?.is_some() {
///     for batch in hooks.training([batch.clone()])? {
///         let mut step = batch.step()?;
///         let logits = step.after_forward(model.forward(step.inputs())?)?;
///         let loss = step.after_loss(loss::cross_entropy(&logits, step.targets())?)?;
///         if let Some(gradients) = step.after_backward(loss.backward()?)? {
///             optimizer.set_learning_rate(step.learning_rate());
///             optimizer.step(&gradients)?;
///             step.after_update()?;
///         }
///         step.finish()?;
///     }
/// }
/// hooks.finish()?;
/// # Ok(())
/// # }
/// ```
pub struct HookHost<'log> {
    state: LoopCell<'log>,
}

impl<'log> HookHost<'log> {
    pub(super) fn new(hooks: LoopHooks<'log>, parameters: Parameters) -> HookHost<'log> {
        HookHost {
            state: LoopCell::new(hooks, parameters),
        }
    }

    /// The next epoch's number, from 0, after `after_cycle` of the one before; `None`, after the training's `after_loop`, if it was the
    /// last, or hooks want the training to end. After [`resuming`](super::HookSetup::resuming) the first one is that in which the states were saved.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a step was left half done.
    pub fn next_epoch(&mut self) -> HostResult<Option<u64>> {
        let inner = self.settled()?;
        inner.hooks.begin_training()?;
        inner.hooks.end_cycle()?;
        let Position { epoch, epochs, .. } = *inner.hooks.position();
        if inner.hooks.stopping() == Stopping::No && epoch < epochs {
            return Ok(Some(epoch));
        }
        // A test may follow, which is not of the training.
        inner.hooks.end_training()?;
        Ok(None)
    }

    /// A pass over the training data; of an epoch that was left at a checkpoint, its first batches are left out. The batches are
    /// inputs and targets, or results of these.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a step was left half done.
    pub fn training<I>(&mut self, batches: I) -> HostResult<Pass<'_, 'log, I::IntoIter>>
    where
        I: IntoIterator,
        I::Item: IntoBatch,
    {
        let batches = batches.into_iter();
        let inner = self.settled()?;
        let count = match batches.size_hint() {
            (least, Some(most)) if least == most => u64::try_from(most).ok(),
            _ => inner.hooks.planned_batches(),
        };
        inner.hooks.begin_epoch(count)?;
        let done = inner.hooks.position().trained;
        Ok(Pass::new(&self.state, batches, Phase::Train, done))
    }

    /// A validation: a pass that changes no parameters.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a step was left half done.
    pub fn validation<I>(&mut self, batches: I) -> HostResult<Pass<'_, 'log, I::IntoIter>>
    where
        I: IntoIterator,
        I::Item: IntoBatch,
    {
        self.evaluation(Phase::Val, batches)
    }

    /// A pass over the data of a phase other than the training's.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a step was left half done.
    pub fn evaluation<I>(
        &mut self,
        phase: Phase,
        batches: I,
    ) -> HostResult<Pass<'_, 'log, I::IntoIter>>
    where
        I: IntoIterator,
        I::Item: IntoBatch,
    {
        let batches = batches.into_iter();
        let count = match batches.size_hint() {
            (least, Some(most)) if least == most => u64::try_from(most).ok(),
            _ => None,
        };
        self.settled()?.hooks.begin_evaluation(phase, count)?;
        Ok(Pass::new(&self.state, batches, phase, 0))
    }

    /// The counters, as hooks see them.
    pub fn position(&self) -> Position {
        self.state.inner.borrow().hooks.position().clone()
    }

    /// The learning rate of the default group, which hooks may have set.
    pub fn learning_rate(&self) -> f64 {
        self.state.inner.borrow().hooks.learning_rate()
    }

    /// Which hook wants the training to end, and why; none if none does.
    pub fn stop_reason(&self) -> Option<(String, String)> {
        self.state.inner.borrow().hooks.stop_reason()
    }

    /// The hooks' states for a checkpoint of the loop's own, beside its parameters and its optimizer's state; then
    /// [`saved`](HookHost::saved).
    ///
    /// # Errors
    ///
    /// If a hook fails.
    pub fn states(&mut self) -> HostResult<Vec<u8>> {
        self.settled()?.hooks.states()
    }

    /// The checkpoint with [`states`](HookHost::states) is on disk, or could not be written.
    ///
    /// # Errors
    ///
    /// If a hook fails.
    pub fn saved(&mut self, path: &Path, written: &Served) -> HostResult {
        self.settled()?.hooks.saved(path, written)
    }

    /// The run ends: `after_loop`, `after_run`; the hooks are dropped.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a step was left half done.
    pub fn finish(mut self) -> HostResult {
        self.settled()?;
        self.state.inner.into_inner().hooks.finish()
    }

    /// The loop has failed: `on_exception` with this message, `after_run`; the hooks are dropped. A host that is dropped without
    /// it says so to its hooks by itself.
    ///
    /// # Errors
    ///
    /// If a hook fails, too.
    pub fn failed(self, error: &dyn std::fmt::Display) -> HostResult {
        self.state.inner.into_inner().hooks.fail(&error.to_string())
    }

    /// The state between passes.
    fn settled(&mut self) -> HostResult<&mut Inner<'log>> {
        let inner = self.state.inner.get_mut();
        match inner.late.take() {
            Some(error) => Err(error),
            None => Ok(inner),
        }
    }
}

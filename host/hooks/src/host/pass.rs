//! A pass over the data of a candle loop: its batches, with hooks called before each.

use std::fmt::Display;

use candle_core::Tensor;
use sconce_lifecycle::{Place, Stopping};
use sconce_plugin_api::Phase;

use super::error::{HostError, HostResult};
use super::inner::LoopCell;
use super::step::Step;

/// Inputs and targets of a batch, from whatever a loader gives.
pub trait IntoBatch {
    /// The batch, or why there is none.
    ///
    /// # Errors
    ///
    /// If the loader has failed, with its message.
    fn into_batch(self) -> Result<(Tensor, Tensor), String>;
}

impl IntoBatch for (Tensor, Tensor) {
    fn into_batch(self) -> Result<(Tensor, Tensor), String> {
        Ok(self)
    }
}

impl<E: Display> IntoBatch for Result<(Tensor, Tensor), E> {
    fn into_batch(self) -> Result<(Tensor, Tensor), String> {
        self.map_err(|error| error.to_string())
    }
}

/// A batch, or why there is none.
#[must_use = "a batch that is not stepped is missing from the run: `skip` in the hooks is for that"]
pub struct Batch<'host, 'log>(HostResult<Step<'host, 'log>>);

impl<'host, 'log> Batch<'host, 'log> {
    /// The batch's step.
    ///
    /// # Errors
    ///
    /// If a hook or the loader has failed, or the step before was left half done.
    pub fn step(self) -> HostResult<Step<'host, 'log>> {
        self.0
    }
}

/// The batches of a pass. Those that hooks skip are left out.
///
/// It ends when the batches do, or when hooks want the training to end. A loop that leaves it earlier ends the pass with the batches
/// that it had.
pub struct Pass<'host, 'log, I> {
    host: &'host LoopCell<'log>,
    batches: I,
    phase: Phase,
    /// Batches at the beginning that are left out.
    done: u64,
    is_over: bool,
}

impl<'host, 'log, I> Pass<'host, 'log, I> {
    pub(super) fn new(host: &'host LoopCell<'log>, batches: I, phase: Phase, done: u64) -> Self {
        Pass {
            host,
            batches,
            phase,
            done,
            is_over: false,
        }
    }
}

impl<'host, 'log, I> Pass<'host, 'log, I>
where
    I: Iterator,
    I::Item: IntoBatch,
{
    /// The next step; `None` at the end of the pass.
    fn next_step(&mut self) -> HostResult<Option<Step<'host, 'log>>> {
        loop {
            let mut inner = self.host.inner.borrow_mut();
            if matches!(inner.hooks.place(), Place::Batch(_)) {
                // The step before was dropped unfinished: this says which call is missing.
                inner.hooks.end_batch()?;
            }
            let stops = self.phase == Phase::Train && inner.hooks.stopping() == Stopping::Now;
            let skipped = std::mem::take(&mut self.done);
            for _ in 0..skipped {
                if self.batches.next().is_none() {
                    break;
                }
            }
            let next = if stops { None } else { self.batches.next() };
            let Some(next) = next else {
                self.is_over = true;
                inner.end_pass(self.phase, (!stops).then_some(true))?;
                return Ok(None);
            };
            let (inputs, targets) = next.into_batch().map_err(HostError::Loop)?;
            let samples = inputs.dims().first().copied().unwrap_or(1);
            inner
                .hooks
                .shared()
                .tensors
                .set_batch(&inputs, &targets, &[]);
            if !inner.hooks.begin_batch(samples as u64, None)? {
                return Ok(Some(Step::new(self.host, inputs, targets)));
            }
            inner.hooks.end_batch()?;
        }
    }
}

impl<'host, 'log, I> Iterator for Pass<'host, 'log, I>
where
    I: Iterator,
    I::Item: IntoBatch,
{
    type Item = Batch<'host, 'log>;

    fn next(&mut self) -> Option<Batch<'host, 'log>> {
        if self.is_over {
            return None;
        }
        match self.next_step() {
            Ok(step) => Some(Batch(Ok(step?))),
            Err(error) => {
                self.is_over = true;
                Some(Batch(Err(error)))
            }
        }
    }
}

impl<I> Drop for Pass<'_, '_, I> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Borrowed only while the loop is being left by a panic.
        if let Ok(mut inner) = self.host.inner.try_borrow_mut()
            && let Err(error) = inner.end_pass(self.phase, Some(true))
        {
            inner.late = Some(error);
        }
    }
}

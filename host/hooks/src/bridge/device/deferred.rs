//! Losses and metrics of batches whose results are still on a device.
//!
//! Reading a value from a device waits until the device has computed it, and while the host waits it queues no further
//! work. So a batch's loss, with the sums of its metrics, stays there as a small tensor, or, where a metric is only
//! computed on the host, with the model's outputs. All that have gathered are fetched at once when somebody reads one of
//! them: a hook, the console's line, a checkpoint, the end of a pass; and when there are many.
//!
//! **Flow.** The trainer [`push`](DeferredMeasures::push)es each batch. Whoever reads calls [`settle`](DeferredMeasures::settle)
//! first, which adds the batches to their phases' metrics one by one, in their order and in `f64`, as if each had been
//! read at once: the values don't depend on when they were read. The trainer then takes the losses
//! ([`take_losses`](DeferredMeasures::take_losses)) to look at them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use candle_core::{DType, Result, Tensor};
use sconce_plugin_api::Phase;

use super::deferred_metrics::DeferredMetrics;
use crate::metric_board::MetricBoard;
use sconce_ops::device;

/// Batches after which results are fetched even if nobody reads them.
const MOST_BATCHES: usize = 256;

/// Bytes of outputs kept on the device after which they are fetched.
const MOST_BYTES: usize = 64 << 20;

/// Losses of training batches that hooks can look back on.
const RECENT: usize = 1024;

/// A measured batch whose results are on the device.
#[derive(Debug)]
pub struct DeferredBatch {
    /// Phase of the pass.
    pub phase: Phase,
    /// Training epochs finished.
    pub epoch: u64,
    /// Training iterations finished.
    pub iteration: u64,
    /// The loss, a scalar.
    pub loss: Tensor,
    /// Weight of the loss in its pass's mean.
    pub weight: f64,
    /// Number of samples.
    pub samples: f64,
    /// What its metrics are computed from.
    pub measure: DeferredMeasure,
}

/// What a batch's metrics are computed from.
#[derive(Debug)]
pub enum DeferredMeasure {
    /// Their sums, of the type `f64`.
    Sums(Tensor),
    /// The model's outputs, detached, and the targets on the host.
    Outputs(Tensor, Tensor),
}

/// The loss of a batch, once read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadLoss {
    /// Phase of the pass.
    pub phase: Phase,
    /// Training epochs finished before the batch.
    pub epoch: u64,
    /// Training iterations finished before the batch.
    pub iteration: u64,
    /// The loss.
    pub loss: f64,
}

/// Results of batches that nobody has read yet, and the last losses that were read.
#[derive(Default)]
pub struct DeferredMeasures {
    metrics: OnceCell<Arc<dyn DeferredMetrics>>,
    waiting: RefCell<Vec<DeferredBatch>>,
    count: Cell<usize>,
    bytes: Cell<usize>,
    losses: RefCell<Vec<ReadLoss>>,
    recent: RefCell<VecDeque<f64>>,
    last: RefCell<[Option<f64>; Phase::ALL.len()]>,
    failure: RefCell<Option<candle_core::Error>>,
}

impl DeferredMeasures {
    /// Sets how the task's metrics are computed; once, before the first batch.
    pub fn set_metrics(&self, metrics: Arc<dyn DeferredMetrics>) {
        // A second run over the same state has the same task.
        drop(self.metrics.set(metrics));
    }

    /// Adds a batch, whose results are read later.
    pub fn push(&self, batch: DeferredBatch, board: &RefCell<MetricBoard>) {
        if let Some(metrics) = self.metrics.get() {
            // The order of metrics is that of their first appearance: the task's come before those of hooks.
            let mut board = board.borrow_mut();
            if board.of(batch.phase).get("loss").is_none() {
                board.set(batch.phase, "loss", f64::NAN);
                for name in metrics.names() {
                    board.set(batch.phase, name, f64::NAN);
                }
            }
        }
        let bytes = match &batch.measure {
            DeferredMeasure::Sums(_) => 0,
            DeferredMeasure::Outputs(outputs, _) => {
                outputs.elem_count() * outputs.dtype().size_in_bytes()
            }
        };
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(batch);
        self.count.set(waiting.len());
        self.bytes.set(self.bytes.get() + bytes);
        let is_full = waiting.len() >= MOST_BATCHES || self.bytes.get() >= MOST_BYTES;
        drop(waiting);
        if is_full {
            self.settle(board);
        }
    }

    /// Whether there are results that nobody has read.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.count.get() > 0
    }

    /// The loss of the last batch, if nobody has read it.
    pub fn newest_loss(&self) -> Option<Tensor> {
        let waiting = self.waiting.borrow();
        waiting.last().map(|batch| batch.loss.clone())
    }

    /// Drops results that nobody has read: those of batches before a rollback.
    pub fn forget(&self) {
        drop(self.take());
        self.losses.borrow_mut().clear();
        self.recent.borrow_mut().clear();
    }

    /// Reads all results, and adds them to the metrics. A failure is kept for [`take_failure`](Self::take_failure).
    #[inline]
    pub fn settle(&self, board: &RefCell<MetricBoard>) {
        if self.is_waiting() {
            self.read(board);
        }
    }

    /// The failure of an earlier [`settle`](Self::settle), once.
    pub fn take_failure(&self) -> Option<candle_core::Error> {
        self.failure.borrow_mut().take()
    }

    /// The losses read since they were last taken, in the order of batches.
    pub fn take_losses(&self) -> Vec<ReadLoss> {
        self.losses.take()
    }

    /// Loss of a phase's last batch, if it has been read late.
    pub fn last(&self, phase: Phase) -> Option<f64> {
        let last = self.last.borrow();
        last.get(phase.number() as usize).copied().flatten()
    }

    /// The losses of the last training batches that were read late, at most `count`, the newest last.
    pub fn recent(&self, count: usize) -> Vec<f64> {
        let recent = self.recent.borrow();
        let skipped = recent.len().saturating_sub(count);
        recent.iter().skip(skipped).copied().collect()
    }

    fn take(&self) -> Vec<DeferredBatch> {
        self.count.set(0);
        self.bytes.set(0);
        self.waiting.take()
    }

    #[cold]
    fn read(&self, board: &RefCell<MetricBoard>) {
        let batches = self.take();
        if let Err(error) = self.add(&batches, board) {
            *self.failure.borrow_mut() = Some(error);
        }
    }

    fn add(&self, batches: &[DeferredBatch], board: &RefCell<MetricBoard>) -> Result<()> {
        let Some(metrics) = self.metrics.get() else {
            return Ok(());
        };
        let results = fetch(batches, metrics.as_ref())?;
        let count = metrics.sum_count();
        let mut board = board.borrow_mut();
        for (batch, (loss, own)) in batches.iter().zip(&results) {
            let (sums, samples) = board.sums(batch.phase, 2 + count);
            *samples += batch.samples;
            if let [total, weight, sums @ ..] = sums {
                // A batch of weight 0 has no loss: 0 · NaN would be NaN.
                *total += if batch.weight > 0.0 {
                    loss * batch.weight
                } else {
                    0.0
                };
                *weight += batch.weight;
                metrics.merge(sums, own);
            }
        }
        self.remember(batches, results.iter().map(|(loss, _)| *loss));
        let mut values = vec![0.0; metrics.names().len()];
        for phase in Phase::ALL {
            if !batches.iter().any(|batch| batch.phase == phase) {
                continue;
            }
            let (sums, samples) = board.sums(phase, 2 + count);
            let mean = match sums {
                [loss, weight, sums @ ..] => {
                    metrics.values(sums, *samples, &mut values);
                    *loss / *weight
                }
                _ => f64::NAN,
            };
            board.set(phase, "loss", mean);
            for (name, value) in metrics.names().iter().zip(&values) {
                board.set(phase, name, *value);
            }
        }
        Ok(())
    }

    fn remember(&self, batches: &[DeferredBatch], losses: impl Iterator<Item = f64>) {
        let mut read = self.losses.borrow_mut();
        let mut recent = self.recent.borrow_mut();
        let mut last = self.last.borrow_mut();
        for (batch, loss) in batches.iter().zip(losses) {
            read.push(ReadLoss {
                phase: batch.phase,
                epoch: batch.epoch,
                iteration: batch.iteration,
                loss,
            });
            if let Some(last) = last.get_mut(batch.phase.number() as usize) {
                *last = Some(loss);
            }
            if batch.phase == Phase::Train {
                recent.push_back(loss);
                if recent.len() > RECENT {
                    recent.pop_front();
                }
            }
        }
    }
}

/// Fetches the results of batches: the loss of each, and the sums of its metrics.
fn fetch(batches: &[DeferredBatch], metrics: &dyn DeferredMetrics) -> Result<Vec<(f64, Vec<f64>)>> {
    // One copy for all losses and sums, joined on the device.
    let mut parts = Vec::with_capacity(2 * batches.len());
    for batch in batches {
        parts.push(batch.loss.detach().to_dtype(DType::F64)?.reshape(1)?);
        if let DeferredMeasure::Sums(sums) = &batch.measure
            && sums.elem_count() > 0
        {
            parts.push(sums.flatten_all()?);
        }
    }
    let values: Vec<f64> = device::fetch(&Tensor::cat(&parts, 0)?)?.to_vec1()?;
    let mut values = values.into_iter();
    let mut results = Vec::with_capacity(batches.len());
    for batch in batches {
        let loss = values.next().unwrap_or(f64::NAN);
        let sums = match &batch.measure {
            DeferredMeasure::Sums(sums) => values.by_ref().take(sums.elem_count()).collect(),
            DeferredMeasure::Outputs(outputs, targets) => {
                let mut sums = vec![0.0; metrics.sum_count()];
                metrics.add(&device::fetch(outputs)?, targets, &mut sums)?;
                sums
            }
        };
        results.push((loss, sums));
    }
    Ok(results)
}

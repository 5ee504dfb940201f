//! What a batch adds to the metrics of its pass.
//!
//! A batch's sums are computed from zero and then added to those of the batches before it: so the sums of a pass have the
//! same bits whichever rank computed which batch, as long as they are added in the order of batches.

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;
use serde::{Deserialize, Serialize};

use super::loss_weight::LossWeight;
use crate::data::Batch;
use crate::metric_board::MetricBoard;
use crate::task::Task;

/// What a batch adds to the metrics of its pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::run) struct BatchSums {
    /// Index of the batch in its update, or in an evaluation.
    pub(in crate::run) batch: u64,
    /// The loss times its weight; 0 for a batch of weight 0.
    loss: f64,
    /// Weight of the loss.
    weight: f64,
    samples: f64,
    /// Sums from which the task's metrics are computed.
    sums: Vec<f64>,
    /// Statistics of the batch norms, for the running ones.
    pub(in crate::run) statistics: Vec<u8>,
}

impl BatchSums {
    /// Computes what a batch adds, in the place of an earlier one.
    pub(in crate::run) fn measure(
        &mut self,
        task: &mut dyn Task,
        batch: &Batch,
        outputs: &Tensor,
        loss: f64,
    ) -> Result<()> {
        self.weight = task.loss_weight(batch)?;
        // A batch of weight 0 has no loss: 0 · NaN would be NaN.
        self.loss = if self.weight > 0.0 {
            loss * self.weight
        } else {
            0.0
        };
        self.samples = batch.len() as f64;
        self.sums.clear();
        self.sums.resize(task.sum_count(), 0.0);
        task.measure(batch, outputs, &mut self.sums)
    }

    /// Weight of the batch's loss.
    pub(in crate::run) fn loss_weight(&self) -> LossWeight {
        LossWeight {
            weight: self.weight,
            samples: self.samples,
        }
    }

    /// The same for the batch with this index in its update or pass, with what its batch norms have recorded.
    pub(in crate::run) fn of_batch(&self, batch: u64, statistics: Vec<u8>) -> BatchSums {
        BatchSums {
            batch,
            statistics,
            ..self.clone()
        }
    }

    /// Adds this batch to the sums of its pass: the loss, its weight, and those of the metrics.
    pub(in crate::run) fn add_to(&self, task: &dyn Task, sums: &mut [f64], samples: &mut f64) {
        *samples += self.samples;
        if let [loss, weight, sums @ ..] = sums {
            *loss += self.loss;
            *weight += self.weight;
            task.merge(sums, &self.sums);
        }
    }
}

/// Adds batches to the metrics of a pass. `values` is a buffer for those of the task.
pub(in crate::run) fn add_batches<'a>(
    board: &mut MetricBoard,
    task: &dyn Task,
    values: &mut [f64],
    phase: Phase,
    batches: impl IntoIterator<Item = &'a BatchSums>,
) {
    let (sums, samples) = board.sums(phase, 2 + task.sum_count());
    for batch in batches {
        batch.add_to(task, sums, samples);
    }
    let mean = compute(task, sums, *samples, values);
    show(board, task, phase, mean, values);
}

/// Shows metrics as they are with batches that this rank alone knows yet.
pub(in crate::run) fn show_with(
    board: &mut MetricBoard,
    task: &dyn Task,
    values: &mut [f64],
    phase: Phase,
    batches: &[BatchSums],
) {
    let (sums, samples) = board.sums(phase, 2 + task.sum_count());
    let (mut sums, mut samples) = (sums.to_vec(), *samples);
    for batch in batches {
        batch.add_to(task, &mut sums, &mut samples);
    }
    let mean = compute(task, &sums, samples, values);
    show(board, task, phase, mean, values);
}

fn show(board: &mut MetricBoard, task: &dyn Task, phase: Phase, mean: f64, values: &[f64]) {
    board.set(phase, "loss", mean);
    for (name, value) in task.metrics().iter().zip(values) {
        board.set(phase, name, *value);
    }
}

/// Computes the mean loss and the task's metrics from a pass's sums.
fn compute(task: &dyn Task, sums: &[f64], samples: f64, values: &mut [f64]) -> f64 {
    match sums {
        [loss, weight, sums @ ..] => {
            task.values(sums, samples, values);
            loss / weight
        }
        _ => f64::NAN,
    }
}

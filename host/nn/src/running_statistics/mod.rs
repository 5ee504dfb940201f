//! Running statistics of batch norms, and batches' statistics recorded to be merged into them later.
//!
//! A training pass updates running statistics at once, unless it is given a [`StatisticsLog`]
//! ([`Pass::collecting`](crate::Pass::collecting)), whose owner applies it after the pass: on a GPU those of all batch
//! norms in one launch. Processes that train together need one too: each
//! computes some of an update's batches, exchanges their records, and applies those of all batches
//! in the batches' order. The running statistics then have the bits that one process gives them.
//!
//! **Flow.** 1. Each training pass fills a log of its own: one entry for each batch norm, in the order
//! of execution; frozen ones record nothing. 2. [`StatisticsLog::to_bytes`] gives the record in a fixed
//! length, which only depends on the model and what of it is frozen. 3. For every batch of the update,
//! in order, [`StatisticsLog::apply_bytes`] of any log of this model merges the record. Applying a log's
//! own bytes is the same as [`StatisticsLog::apply`], and this the same as a pass without a log.
//!
//! In a pass [across ranks](crate::Pass::across) the statistics are those of the round: the batches of
//! all ranks together. They have the same bits on all ranks, those whose batch doesn't count included, so
//! each rank applies its own record, once per round, and exchanges none.

use candle_core::{DType, Result, Tensor, bail};

use crate::ops::{ChannelStatistics, RunningUpdate, update_running};

#[cfg(test)]
mod tests;

/// Running statistics of one batch norm; shares the memory of its buffers.
#[derive(Clone, Debug)]
pub(crate) struct RunningStatistics {
    /// Running mean of each channel: (channels).
    pub(crate) mean: Tensor,
    /// Running variance of each channel, unbiased: (channels).
    pub(crate) variance: Tensor,
    /// Number of batches merged so far: a scalar.
    pub(crate) batches: Tensor,
    /// Weight of a batch, from 0 to 1.
    pub(crate) momentum: f64,
}

impl RunningStatistics {
    /// Merges a batch.
    pub(crate) fn track(&self, batch: &ChannelStatistics) -> Result<()> {
        update_running(&[self.update(batch)])
    }

    fn update<'a>(&'a self, batch: &'a ChannelStatistics) -> RunningUpdate<'a> {
        RunningUpdate {
            mean: &self.mean,
            variance: &self.variance,
            batches: &self.batches,
            batch,
            momentum: self.momentum,
        }
    }

    /// Number of channels, and the size of an element in bytes.
    fn sizes(&self) -> (usize, usize) {
        (self.mean.elem_count(), self.mean.dtype().size_in_bytes())
    }

    /// Length of a batch's record: its count, its means and its variances.
    fn record_length(&self) -> usize {
        let (channels, size) = self.sizes();
        COUNT + 2 * channels * size
    }

    /// Appends a batch's record.
    fn write(&self, batch: &ChannelStatistics, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.extend((batch.count as u64).to_le_bytes());
        for tensor in [&batch.mean, &batch.variance] {
            if tensor.elem_count() != self.mean.elem_count() {
                bail!(
                    "a batch norm of {} channels recorded {}",
                    self.mean.elem_count(),
                    tensor.elem_count()
                )
            }
            match self.mean.dtype() {
                DType::F32 => {
                    let numbers = tensor.to_vec1::<f32>()?;
                    bytes.extend(numbers.into_iter().flat_map(f32::to_le_bytes));
                }
                DType::F64 => {
                    let numbers = tensor.to_vec1::<f64>()?;
                    bytes.extend(numbers.into_iter().flat_map(f64::to_le_bytes));
                }
                other => bail!("statistics of a batch norm in {other:?} can't be recorded"),
            }
        }
        Ok(())
    }

    /// The batch of a record, which has [its length](Self::record_length).
    fn read(&self, record: &[u8]) -> Result<ChannelStatistics> {
        let (channels, size) = self.sizes();
        let Some((count, numbers)) = record.split_first_chunk::<COUNT>() else {
            bail!("a record of batch norm statistics is too short")
        };
        let count = u64::from_le_bytes(*count);
        let Ok(count @ 2..) = usize::try_from(count) else {
            bail!("a record says that statistics were computed from {count} values")
        };
        let Some((mean, variance)) = numbers.split_at_checked(channels * size) else {
            bail!("a record of batch norm statistics is too short")
        };
        let tensor = |bytes: &[u8]| {
            Tensor::from_raw_buffer(
                bytes,
                self.mean.dtype(),
                self.mean.dims(),
                self.mean.device(),
            )
        };
        Ok(ChannelStatistics {
            mean: tensor(mean)?,
            variance: tensor(variance)?,
            count,
        })
    }
}

/// Bytes of a record's count.
const COUNT: usize = size_of::<u64>();

/// What the batch norms of a model recorded in one training pass, instead of updating their running
/// statistics.
///
/// ```
/// use std::cell::RefCell;
///
/// use candle_core::{DType, Device, Tensor};
/// use sconce_nn::layers::{BatchNorm, BatchNormOptions};
/// use sconce_nn::parameters::Parameters;
/// use sconce_nn::{Layer, Pass, StatisticsLog};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
/// let norm = BatchNorm::new(&mut parameters.scope("norm"), 1, BatchNormOptions::default())?;
/// let x = Tensor::new(&[[2.0_f32], [4.0]], &Device::Cpu)?;
///
/// let log = RefCell::new(StatisticsLog::default());
/// Layer::forward(&norm, &x, &mut Pass::training().collecting(&log))?;
/// let mean = parameters.get("norm.running_mean")?.tensor();
/// assert_eq!(mean.to_vec1::<f32>()?, [0.0]);
///
/// let log = log.into_inner();
/// let record = log.to_bytes()?; // for the other processes, whose records arrive here
/// log.apply_bytes(&record)?;
/// assert_eq!(mean.to_vec1::<f32>()?, [0.3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct StatisticsLog {
    entries: Vec<(RunningStatistics, ChannelStatistics)>,
}

impl StatisticsLog {
    /// Records a batch of one batch norm.
    pub(crate) fn push(&mut self, running: &RunningStatistics, batch: ChannelStatistics) {
        self.entries.push((running.clone(), batch));
    }

    /// Whether nothing was recorded: the model has no batch norm, or all of them are frozen.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets everything, for another pass.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Updates the running statistics by this log's own batch.
    ///
    /// # Errors
    ///
    /// If candle fails to compute or store them.
    pub fn apply(&self) -> Result<()> {
        let entries = self.entries.iter();
        let updates: Vec<_> = entries
            .map(|(running, batch)| running.update(batch))
            .collect();
        update_running(&updates)
    }

    /// Number of bytes of a record, [of this log's](Self::to_bytes) and of any other pass of the model.
    pub fn record_length(&self) -> usize {
        let entries = self.entries.iter();
        entries.map(|(running, _)| running.record_length()).sum()
    }

    /// Returns this log's batch as bytes: for each batch norm, in the order of execution, the number of
    /// values per channel (`u64`), the means, and the biased variances, in the tensors' own type. Numbers
    /// are little-endian.
    ///
    /// # Errors
    ///
    /// If the statistics are neither `f32` nor `f64`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.record_length());
        for (running, batch) in &self.entries {
            running.write(batch, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Updates the running statistics by the batch of another log of the same model, given as
    /// [its bytes](Self::to_bytes). This log only says which batch norms they belong to.
    ///
    /// # Errors
    ///
    /// If the record has another length than this log's, or a number of values below 2; nothing is
    /// changed then. If candle fails to compute or store the statistics.
    pub fn apply_bytes(&self, record: &[u8]) -> Result<()> {
        let expected = self.record_length();
        if record.len() != expected {
            bail!(
                "a record of batch norm statistics has {} bytes instead of {expected}: it is from another model, \
                 or from one of which other parts are frozen",
                record.len()
            )
        }
        let mut rest = record;
        let mut batches = Vec::with_capacity(self.entries.len());
        for (running, _) in &self.entries {
            let Some((record, after)) = rest.split_at_checked(running.record_length()) else {
                bail!("a record of batch norm statistics is too short")
            };
            batches.push((running, running.read(record)?));
            rest = after;
        }
        let batches = batches.iter();
        let updates: Vec<_> = batches
            .map(|(running, batch)| running.update(batch))
            .collect();
        update_running(&updates)
    }
}

//! Batches for running statistics.

use candle_core::Tensor;

use super::ChannelStatistics;

/// A batch to merge into the running statistics of a batch norm.
#[derive(Clone, Copy, Debug)]
pub struct RunningUpdate<'a> {
    /// Running mean of each channel, changed in place: (channels).
    pub mean: &'a Tensor,
    /// Running variance of each channel, unbiased, changed in place: (channels).
    pub variance: &'a Tensor,
    /// Number of batches merged so far, changed in place: a scalar.
    pub batches: &'a Tensor,
    /// Statistics of the batch, from more than one element per channel.
    pub batch: &'a ChannelStatistics,
    /// Weight of the batch, from 0 to 1.
    pub momentum: f64,
}

impl RunningUpdate<'_> {
    /// Factors of the running statistics, of the batch's mean and of its variance, which becomes the unbiased one, as in
    /// PyTorch.
    pub(crate) fn factors(&self) -> [f64; 3] {
        let count = self.batch.count as f64;
        [
            1.0 - self.momentum,
            self.momentum,
            self.momentum * (count / (count - 1.0)),
        ]
    }
}

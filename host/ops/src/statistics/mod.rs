//! Statistics of channels, by which a batch norm normalises.
//!
//! - `ranks`: those of the batches that several processes normalise together;
//! - `running`: a batch that is merged into running ones.

mod ranks;
mod running;

use candle_core::Tensor;

pub use ranks::{AcrossRanks, SharedBatch};
pub use running::RunningUpdate;

/// Mean and variance of each channel of (batch, channels, …).
#[derive(Clone, Debug)]
pub struct ChannelStatistics {
    /// Mean of each channel: (channels).
    pub mean: Tensor,
    /// Biased variance, by which a batch is normalised: (channels).
    pub variance: Tensor,
    /// Number of elements of a channel that they were computed from.
    pub count: usize,
}

/// What statistics depend on, and so where gradients go.
#[derive(Clone, Debug)]
pub enum StatisticsSource {
    /// Nothing: they are constants.
    Constant,
    /// The input itself.
    Batch,
    /// The inputs of all ranks.
    Ranks(SharedBatch),
}

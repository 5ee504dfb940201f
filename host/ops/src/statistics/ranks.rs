//! Statistics of the batches that several processes normalise together: synchronised batch norm.

use std::fmt;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};

use super::ChannelStatistics;

#[cfg(test)]
mod tests;

/// Exchanges values between the ranks of a team: processes that train together.
///
/// It is called in the forward pass of each synchronised batch norm, and in its backward pass, which runs within
/// [`backward`](crate::backward), on the thread that called it. All ranks must therefore run the same operations in the
/// same order: the same model with the same parts frozen, a backward pass on all of them or on none. A rank that fails
/// or leaves a batch out while the others wait here is for the implementation to notice, which returns an error then.
pub trait AcrossRanks: Send + Sync + fmt::Debug {
    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Writes every rank's `own`, in the order of ranks, to `all`, which is `size` times as long. All ranks call it with
    /// the same length.
    ///
    /// # Errors
    ///
    /// If a rank is gone, has failed, or is elsewhere.
    fn gather(&self, own: &[f64], all: &mut [f64]) -> Result<()>;
}

/// A rank's batch among those that all ranks normalise together.
///
/// Sums over ranks are computed in `f64` and in the order of ranks, so all ranks have the same statistics, to the bit.
#[derive(Clone, Debug)]
pub struct SharedBatch {
    ranks: Arc<dyn AcrossRanks>,
    counts: bool,
}

impl SharedBatch {
    /// Makes this rank's batch one of the batches of all `ranks`. One that does not count contributes nothing to the
    /// statistics and to other ranks' gradients, but is normalised by the statistics of the others.
    pub fn new(ranks: Arc<dyn AcrossRanks>, counts: bool) -> SharedBatch {
        SharedBatch { ranks, counts }
    }

    /// Statistics of all ranks' batches together, from the one's own (Chan et al., 1979). On every rank they are the
    /// same; where a single batch counts, they are its own.
    ///
    /// # Errors
    ///
    /// If the ranks' values can't be exchanged, or a rank's count is not one.
    pub fn statistics(&self, own: &ChannelStatistics) -> Result<ChannelStatistics> {
        let count = if self.counts { own.count as f64 } else { 0.0 };
        let mut values = vec![count];
        values.extend(numbers(&own.mean)?);
        values.extend(numbers(&own.variance)?);
        let all = self.gather(&values)?;
        let channels = own.mean.elem_count();
        let mut together = Together::new(channels);
        for values in all.chunks_exact(values.len()) {
            let [count, values @ ..] = values else {
                continue;
            };
            // Above 2⁵³ neighbouring integers can't be told apart.
            if !(0.0..9_007_199_254_740_992.0).contains(count) || count.fract() != 0.0 {
                bail!("a rank says that its statistics are those of {count} values")
            }
            let (means, variances) = values.split_at(channels);
            together.add(*count, means, variances);
        }
        let tensor = |values: Vec<f64>| {
            Tensor::from_vec(values, channels, own.mean.device())?.to_dtype(own.mean.dtype())
        };
        Ok(ChannelStatistics {
            mean: tensor(together.means)?,
            variance: tensor(together.variances)?,
            count: together.count as usize,
        })
    }

    /// Sums over the ranks whose batches count of each of these values.
    pub(crate) fn sums(&self, mut own: Vec<f64>) -> Result<Vec<f64>> {
        if !self.counts {
            own.fill(0.0);
        }
        let all = self.gather(&own)?;
        let mut ranks = all.chunks_exact(own.len().max(1));
        let mut sums = match ranks.next() {
            Some(first) => first.to_vec(),
            None => own,
        };
        for values in ranks {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
        Ok(sums)
    }

    fn gather(&self, own: &[f64]) -> Result<Vec<f64>> {
        let mut all = vec![0.0; own.len() * self.ranks.size()];
        self.ranks.gather(own, &mut all)?;
        Ok(all)
    }
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(candle_core::DType::F64)?.to_vec1()
}

/// Statistics of the batches so far.
struct Together {
    count: f64,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl Together {
    fn new(channels: usize) -> Together {
        Together {
            count: 0.0,
            means: vec![0.0; channels],
            variances: vec![0.0; channels],
        }
    }

    /// Adds a batch. The first one is taken over as it is; one without values changes nothing.
    fn add(&mut self, count: f64, means: &[f64], variances: &[f64]) {
        if count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            (self.count, self.means, self.variances) = (count, means.to_vec(), variances.to_vec());
            return;
        }
        let sum = self.count + count;
        let (before, added) = (self.count / sum, count / sum);
        let own = self.means.iter_mut().zip(&mut self.variances);
        for ((mean, variance), (other_mean, other_variance)) in own.zip(means.iter().zip(variances))
        {
            let distance = other_mean - *mean;
            *mean += distance * added;
            *variance =
                *variance * before + other_variance * added + distance * distance * before * added;
        }
        self.count = sum;
    }
}

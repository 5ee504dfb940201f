//! The processes that train together, and what their hooks exchange.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TaskView;
use crate::error::outcome;
use crate::ext::{HostCalls, RanksClient};
use crate::{HookError, Result, state};

impl<'task> TaskView<'task> {
    /// The processes that train together, of which this is one; alone if the host lacks `sconce.ranks/1`.
    pub fn ranks(&self) -> Ranks<'task> {
        Ranks { host: self.host }
    }
}

/// The processes that train together, for the duration of a call.
///
/// Each rank processes its own batches of an update. A hook that runs on all ranks (`ranks = "all"` in its attribute, or
/// in its manifest entry) has an instance on each, which sees only that rank's batches in training; in evaluations it
/// sees all. What the instances count is put together by the methods that exchange something ([`gather`](Ranks::gather),
/// [`sum_u64`](Ranks::sum_u64) and the others). They are **collective**: the instances of all ranks call the same ones,
/// in the same order and at the same point, so a call must not depend on what one rank alone sees. Their results are the
/// same on all ranks.
///
/// In a run of one process they return what they are given, so that a hook is written once for both.
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// /// Publishes how many training samples of an epoch had a loss above 1 on average.
/// struct Hard(u64);
///
/// #[hook(name = "hard", about = "Counts hard samples.", publishes = ["hard"], ranks = "all")]
/// impl Hook for Hard {
///     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
///         Ok(Hard(0))
///     }
///
///     fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
///         let counts = task.phase() == Phase::Train && !task.ranks().is_repeated();
///         if counts && task.loss().is_some_and(|loss| loss > 1.0) {
///             self.0 += task.batch_size();
///         }
///         Ok(())
///     }
///
///     fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
///         if task.phase() != Phase::Train {
///             return Ok(());
///         }
///         let mut count = [std::mem::take(&mut self.0)];
///         task.ranks().sum_u64(&mut count)?;
///         task.publish_metric("hard", count[0] as f64)
///     }
/// }
/// # export_plugin!(Hard);
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ranks<'task> {
    host: HostCalls<'task>,
}

impl Ranks<'_> {
    /// Number of this process, from 0. Rank 0 writes the run's checkpoints.
    pub fn rank(&self) -> usize {
        self.host.ranks().map_or(0, |ranks| ranks.rank() as usize)
    }

    /// Number of processes, at least 1.
    pub fn size(&self) -> usize {
        let size = self.host.ranks().map_or(1, RanksClient::size);
        size.max(1) as usize
    }

    /// Whether the current training batch repeats one of rank 0, because there is none left for this rank.
    ///
    /// Its gradients and metrics are dropped by the host; a hook that counts or sums leaves it out too. It can be true at
    /// the end of an epoch, or with fewer batches in an update than ranks, and is never true on rank 0.
    pub fn is_repeated(&self) -> bool {
        self.host.ranks().is_ok_and(RanksClient::is_repeated)
    }

    /// Every rank's bytes, in the order of ranks. The lengths may differ. Collective.
    ///
    /// # Errors
    ///
    /// If the hook runs on the first rank alone, if ranks exchange nothing at this point (within evaluations and batches,
    /// and at creation), if a rank has failed, or if the ranks do not call the same method.
    #[track_caller]
    pub fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.gather_equal(&(own.len() as u64).to_le_bytes())?;
        let lengths: Vec<usize> = lengths.iter().map(|bytes| number(bytes) as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let mut padded = own.to_vec();
        padded.resize(longest, 0);
        let mut all = self.gather_equal(&padded)?;
        for (bytes, length) in all.iter_mut().zip(lengths) {
            bytes.truncate(length);
        }
        Ok(all)
    }

    /// Every rank's value, in the order of ranks, encoded as by [`state::to_bytes`]. Collective.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Ranks::gather), and if the value can't be encoded or decoded.
    #[track_caller]
    pub fn gather_values<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>> {
        let all = self.gather(&state::to_bytes(own)?)?;
        all.iter().map(|bytes| state::from_bytes(bytes)).collect()
    }

    /// Replaces each value by its sum over all ranks; the slices have the same length on all. Collective.
    ///
    /// Sums of integers are exact: the same as in one process.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Ranks::gather), and if a sum exceeds 64 bits.
    #[track_caller]
    pub fn sum_u64(&self, values: &mut [u64]) -> Result<()> {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let all = self.gather_equal(&bytes)?;
        values.fill(0);
        for rank in &all {
            for (sum, value) in values.iter_mut().zip(rank.chunks_exact(8)) {
                let next = sum.checked_add(number(value));
                *sum = next.ok_or_else(|| HookError::new("a sum over ranks exceeds 64 bits"))?;
            }
        }
        Ok(())
    }

    /// Replaces each value by its sum over all ranks, added in the order of ranks; the slices have the same length on
    /// all. Collective.
    ///
    /// Rounding differs from one process, and with the number of ranks: where bits matter, [gather](Ranks::gather_values)
    /// what each batch has contributed and add it in the order of batches.
    ///
    /// # Errors
    ///
    /// As for [`gather`](Ranks::gather).
    #[track_caller]
    pub fn sum_f64(&self, values: &mut [f64]) -> Result<()> {
        let bits = values.iter().map(|value| value.to_bits());
        let bytes: Vec<u8> = bits.flat_map(u64::to_le_bytes).collect();
        let all = self.gather_equal(&bytes)?;
        // Begins with the first rank's values, as -0.0 + 0.0 is 0.0.
        for (rank, bytes) in all.iter().enumerate() {
            for (sum, value) in values.iter_mut().zip(bytes.chunks_exact(8)) {
                let value = f64::from_bits(number(value));
                *sum = if rank == 0 { value } else { *sum + value };
            }
        }
        Ok(())
    }

    /// Every rank's bytes, which have the same length on all.
    #[track_caller]
    fn gather_equal(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Ok(ranks) = self.host.ranks() else {
            return Ok(vec![own.to_vec()]);
        };
        let size = self.size();
        let room = own.len().checked_mul(size);
        let room = room.ok_or_else(|| HookError::new("too many bytes to gather"))?;
        let mut all = vec![0; room];
        outcome(ranks.gather(own, &mut all))?;
        if own.is_empty() {
            return Ok(vec![Vec::new(); size]);
        }
        Ok(all.chunks_exact(own.len()).map(<[u8]>::to_vec).collect())
    }
}

/// The number in eight bytes, little endian.
fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.try_into().unwrap_or_default();
    u64::from_le_bytes(bytes)
}

//! Running statistics, into which those of batches are merged.

use std::collections::HashSet;

use candle_core::{Result, Tensor, Var};

use crate::statistics::RunningUpdate;

impl RunningUpdate<'_> {
    fn merge(&self) -> Result<()> {
        let [kept, of_mean, of_variance] = self.factors();
        let moved = |running: &Tensor, found: &Tensor, factor: f64| {
            let next = running.detach().affine(kept, 0.0)?;
            Var::from_tensor(running)?.set(&next.add(&found.affine(factor, 0.0)?)?)
        };
        moved(self.mean, &self.batch.mean, of_mean)?;
        moved(self.variance, &self.batch.variance, of_variance)?;
        let batches = self.batches.detach().affine(1.0, 1.0)?;
        Var::from_tensor(self.batches)?.set(&batches)
    }
}

/// Merges batches into running statistics, in order; on a GPU those of different batch norms in one launch.
///
/// # Errors
///
/// If shapes or types don't fit each other, or the device fails.
pub fn update_running(updates: &[RunningUpdate<'_>]) -> Result<()> {
    let mut rest = updates;
    while !rest.is_empty() {
        // A batch norm that was used several times takes its batches one after the other.
        let mut seen = HashSet::new();
        let is_first = |update: &&RunningUpdate<'_>| seen.insert(update.mean.id());
        let (together, others) = rest.split_at(rest.iter().take_while(is_first).count());
        update_together(together)?;
        rest = others;
    }
    Ok(())
}

/// Merges batches into the running statistics of as many batch norms.
fn update_together(updates: &[RunningUpdate<'_>]) -> Result<()> {
    #[cfg(feature = "cuda")]
    if updates.iter().all(crate::cuda::batch_norm::takes_running) {
        return crate::cuda::batch_norm::update_running(updates);
    }
    updates.iter().try_for_each(RunningUpdate::merge)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::{ChannelStatistics, device, normal_numbers};

    const CHANNELS: [usize; 3] = [3, 300, 17];

    struct Norm {
        mean: Var,
        variance: Var,
        batches: Var,
    }

    impl Norm {
        fn new(channels: usize, device: &Device) -> Result<Norm> {
            Ok(Norm {
                mean: Var::from_tensor(&normal_numbers(1, channels)?.to_device(device)?)?,
                variance: Var::from_tensor(&normal_numbers(2, channels)?.to_device(device)?)?,
                batches: Var::from_tensor(&Tensor::new(7.0_f32, device)?)?,
            })
        }

        fn update<'a>(&'a self, batch: &'a ChannelStatistics, momentum: f64) -> RunningUpdate<'a> {
            RunningUpdate {
                mean: &self.mean,
                variance: &self.variance,
                batches: &self.batches,
                batch,
                momentum,
            }
        }

        fn numbers(&self) -> Result<[Vec<f32>; 3]> {
            Ok([
                self.mean.to_vec1()?,
                self.variance.to_vec1()?,
                vec![self.batches.to_scalar()?],
            ])
        }
    }

    fn batch(seed: u64, channels: usize, device: &Device) -> Result<ChannelStatistics> {
        Ok(ChannelStatistics {
            mean: normal_numbers(seed, channels)?.to_device(device)?,
            variance: normal_numbers(seed + 1, channels)?
                .sqr()?
                .to_device(device)?,
            count: 12,
        })
    }

    /// What merging gives, element by element.
    fn expected(before: &[f32], found: &Tensor, momentum: f64, scale: f64) -> Result<Vec<u32>> {
        let (kept, factor) = ((1.0 - momentum) as f32, (momentum * scale) as f32);
        let found: Vec<f32> = found.to_vec1()?;
        let merged = before.iter().zip(found).map(|(x, y)| x * kept + y * factor);
        Ok(merged.map(f32::to_bits).collect())
    }

    #[test]
    fn batch_norms_together_have_the_bits_of_each_by_itself() -> Result<()> {
        let device = device::for_tests();
        let norms = CHANNELS.map(|channels| Norm::new(channels, &device).expect("a norm"));
        let batches =
            CHANNELS.map(|channels| batch(channels as u64, channels, &device).expect("a batch"));
        let momenta = [0.1, 0.25, 1.0];
        let before: Vec<_> = norms.iter().map(Norm::numbers).collect::<Result<_>>()?;
        let updates: Vec<_> = (norms.iter().zip(&batches).zip(momenta))
            .map(|((norm, batch), momentum)| norm.update(batch, momentum))
            .collect();
        update_running(&updates)?;
        for (index, norm) in norms.iter().enumerate() {
            let [mean, variance, count] = norm.numbers()?;
            let bits =
                |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let (of_batch, momentum) = (&batches[index], momenta[index]);
            let of_mean = expected(&before[index][0], &of_batch.mean, momentum, 1.0)?;
            let scale = 12.0 / 11.0;
            let of_variance = expected(&before[index][1], &of_batch.variance, momentum, scale)?;
            assert_eq!(bits(mean), of_mean);
            assert_eq!(bits(variance), of_variance);
            assert_eq!(count, [8.0]);
        }
        Ok(())
    }

    #[test]
    fn a_batch_norm_that_was_used_twice_takes_both_batches_in_order() -> Result<()> {
        let device = device::for_tests();
        let (together, apart) = (Norm::new(5, &device)?, Norm::new(5, &device)?);
        let batches = [batch(3, 5, &device)?, batch(5, 5, &device)?];
        let updates = batches.each_ref().map(|batch| together.update(batch, 0.3));
        update_running(&updates)?;
        for batch in &batches {
            update_running(&[apart.update(batch, 0.3)])?;
        }
        assert_eq!(together.numbers()?, apart.numbers()?);
        assert_eq!(together.numbers()?[2], [9.0]);
        Ok(())
    }
}

//! Order of samples, keyed by seed and epoch, so that a resumed run gets the same one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::class_counts::class_members;
use crate::{DataError, Dataset, Targets};
use sconce_ops::random;

/// How the samples of a training epoch are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Each sample once, in random order.
    #[default]
    Once,
    /// As many draws as samples, with replacement, each of a random class and then of one of its samples: rare classes are
    /// seen as often as frequent ones.
    Balanced,
}

impl Sampling {
    /// Whether this is the default.
    pub fn is_default(&self) -> bool {
        *self == Sampling::default()
    }

    /// Checks that samples of these targets can be drawn so.
    ///
    /// # Errors
    ///
    /// If classes are to be balanced, and the targets are not one class of each sample.
    pub fn check(self, targets: &Targets) -> Result<(), DataError> {
        match (self, targets) {
            (Sampling::Once, _) | (Sampling::Balanced, Targets::Class(_)) => Ok(()),
            (Sampling::Balanced, _) => Err(DataError::NotBalanced),
        }
    }
}

/// Draws the orders of training epochs.
pub struct Sampler {
    count: usize,
    /// Samples of each class that has any, if classes are balanced.
    classes: Option<Vec<Vec<u32>>>,
}

impl Sampler {
    /// Creates the sampler of a data set.
    ///
    /// # Errors
    ///
    /// If samples can't be drawn so, or their classes can't be read.
    pub fn new(sampling: Sampling, data: &dyn Dataset) -> Result<Sampler, DataError> {
        sampling.check(data.targets())?;
        let classes = match sampling {
            Sampling::Once => None,
            Sampling::Balanced => {
                let mut classes = class_members(data)?;
                classes.retain(|members| !members.is_empty());
                Some(classes)
            }
        };
        Ok(Sampler {
            count: data.len(),
            classes,
        })
    }

    /// Returns the order of an epoch, as many indices as there are samples.
    pub fn order(&self, seed: u64, epoch: u64) -> Vec<u32> {
        let Some(classes) = &self.classes else {
            return training(seed, epoch, self.count);
        };
        let mut stream = random::stream(seed, "order-balanced", epoch, 0);
        let mut draw = || {
            let class = classes.get(stream.below(classes.len() as u64) as usize)?;
            class
                .get(stream.below(class.len() as u64) as usize)
                .copied()
        };
        (0..self.count).filter_map(|_| draw()).collect()
    }
}

/// Returns the order of a training epoch: a permutation of all samples.
pub fn training(seed: u64, epoch: u64, count: usize) -> Vec<u32> {
    random::stream(seed, "order", epoch, 0).permutation(count)
}

/// Returns the order in all other passes: that of the data set.
pub fn natural(count: usize) -> Vec<u32> {
    (0..count as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_have_orders_of_their_own_that_can_be_found_again() {
        let first = training(1, 0, 100);
        assert_eq!(first, training(1, 0, 100));
        assert_ne!(first, training(1, 1, 100));
        assert_ne!(first, training(2, 0, 100));
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, natural(100));
    }

    #[test]
    fn balanced_orders_have_each_class_as_often() {
        use crate::numbers::{NumberDataset, Samples, TargetValues};
        // 90 of the first class, 9 of the second, none of the third, 1 of the fourth.
        let classes: Vec<u32> = (0..100)
            .map(|sample| [0, 1, 3][usize::from(sample >= 90) + usize::from(sample == 99)])
            .collect();
        let samples = Samples {
            inputs: vec![0.0; 100].into(),
            shape: vec![1],
            values: TargetValues::Classes(classes.clone()),
            count: 100,
        };
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let data = NumberDataset::all(samples, Targets::Class(names));
        let drawn = Sampler::new(Sampling::Balanced, &data).expect("classes");
        let mut counts = [0; 4];
        for epoch in 0..60 {
            let order = drawn.order(1, epoch);
            assert_eq!(order.len(), 100);
            assert_eq!(order, drawn.order(1, epoch));
            assert_ne!(order, drawn.order(1, epoch + 1));
            for &sample in &order {
                counts[classes[sample as usize] as usize] += 1;
            }
        }
        // 2,000 each but for chance: the standard deviation is 37.
        let [first, second, third, fourth] = counts;
        for count in [first, second, fourth] {
            assert!((1_850..2_150).contains(&count), "{counts:?}");
        }
        assert_eq!(third, 0);
        let once = Sampler::new(Sampling::Once, &data).expect("any data");
        assert_eq!(once.order(1, 3), training(1, 3, 100));
        assert!(
            Sampling::Balanced
                .check(&Targets::Numbers(vec!["x".to_owned()]))
                .is_err()
        );
    }
}

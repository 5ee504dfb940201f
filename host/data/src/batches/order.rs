//! Order of samples, keyed by seed and epoch, so that a resumed run gets the same one.
//!
//! Up to [`MOST_LISTED`] samples have a list in memory, shuffled. More have a [`KeyedPermutation`], which computes each index
//! when it is asked for it.

use std::borrow::Cow;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::keyed_permutation::KeyedPermutation;
use crate::dataset::class_counts::class_members;
use crate::{DataError, Dataset, Targets};
use sconce_ops::random;

/// Number of samples above which the order of an epoch is computed instead of listed: 64 MiB of indices.
pub const MOST_LISTED: usize = 1 << 24;

/// The samples of a pass, in order.
#[derive(Clone, Debug)]
pub enum Order {
    /// These indices.
    Listed(Vec<u32>),
    /// All indices below this number, ascending.
    Natural(u32),
    /// All indices in an order that is computed.
    Permuted(KeyedPermutation),
}

impl Order {
    /// Returns the indices in a range of the order; none if it is not within the order.
    pub fn indices(&self, range: Range<usize>) -> Option<Cow<'_, [u32]>> {
        match self {
            Order::Listed(indices) => indices.get(range).map(Cow::Borrowed),
            Order::Natural(count) => {
                let (start, end) = checked(range, *count)?;
                Some((start..end).collect())
            }
            Order::Permuted(permutation) => {
                let (start, end) = checked(range, permutation.count())?;
                Some((start..end).map(|place| permutation.at(place)).collect())
            }
        }
    }
}

impl From<Vec<u32>> for Order {
    fn from(indices: Vec<u32>) -> Order {
        Order::Listed(indices)
    }
}

/// The range as indices, if it is within the first `count`.
fn checked(range: Range<usize>, count: u32) -> Option<(u32, u32)> {
    let end = u32::try_from(range.end).ok().filter(|end| *end <= count)?;
    let start = u32::try_from(range.start).ok()?;
    Some((start, end))
}

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
    pub fn order(&self, seed: u64, epoch: u64) -> Order {
        let Some(classes) = &self.classes else {
            return match u32::try_from(self.count) {
                Ok(count) if self.count > MOST_LISTED => {
                    Order::Permuted(KeyedPermutation::new(seed, epoch, count))
                }
                _ => Order::Listed(training(seed, epoch, self.count)),
            };
        };
        let mut stream = random::stream(seed, "order-balanced", epoch, 0);
        let mut draw = || {
            let class = classes.get(stream.below(classes.len() as u64) as usize)?;
            class
                .get(stream.below(class.len() as u64) as usize)
                .copied()
        };
        Order::Listed((0..self.count).filter_map(|_| draw()).collect())
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

    fn listed(sampler: &Sampler, epoch: u64) -> Vec<u32> {
        let order = sampler.order(1, epoch);
        order.indices(0..100).expect("all").into_owned()
    }

    #[test]
    fn orders_that_are_computed_are_those_that_are_listed() {
        let natural = Order::Natural(5);
        assert_eq!(natural.indices(1..4).expect("three").as_ref(), [1, 2, 3]);
        let permuted = Order::Permuted(KeyedPermutation::new(1, 2, 5));
        let mut all = permuted.indices(0..5).expect("all").into_owned();
        assert_eq!(permuted.indices(2..4).expect("two").as_ref(), &all[2..4]);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        for order in [natural, permuted, Order::Listed(all)] {
            assert!(order.indices(3..6).is_none());
            assert!(order.indices(5..5).expect("none").is_empty());
        }
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
            let order = listed(&drawn, epoch);
            assert_eq!(order.len(), 100);
            assert_eq!(order, listed(&drawn, epoch));
            assert_ne!(order, listed(&drawn, epoch + 1));
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
        assert_eq!(listed(&once, 3), training(1, 3, 100));
        assert!(
            Sampling::Balanced
                .check(&Targets::Numbers(vec!["x".to_owned()]))
                .is_err()
        );
    }
}

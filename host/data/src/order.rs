//! Order of samples, keyed by seed and epoch, so that a resumed run gets the same one.

use sconce_ops::random;

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
}

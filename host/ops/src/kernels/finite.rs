//! The check that all elements are finite, at the speed of reading them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::math::{Number, sum};
use super::parallel::region;
use crate::vectorised;

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 2;

vectorised! {
    /// x · 0 is 0 for finite x and NaN otherwise, so no element needs a branch.
    fn has_only_finite<T: Number>(x: &[T]) -> bool {
        sum([x], |[x]| x * T::ZERO).is_finite()
    }
}

/// Whether no element is NaN or infinite.
pub(crate) fn all_finite<T: Number>(x: &[T]) -> bool {
    let parts = region::parts(x.len() * EACH);
    let is_finite = AtomicBool::new(true);
    region::run(parts, |part| {
        let range = region::range(x.len(), 64, part, parts);
        if !has_only_finite(&x[range]) {
            is_finite.store(false, Ordering::Relaxed);
        }
    });
    is_finite.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_among_many_is_found_wherever_it_is() {
        for count in [1, 31, 64, 1000, 700_001] {
            let mut x = vec![f32::MAX; count];
            assert!(all_finite(&x), "{count}");
            for (place, odd) in [
                (0, f32::NAN),
                (count / 2, f32::INFINITY),
                (count - 1, f32::NEG_INFINITY),
            ] {
                let before = std::mem::replace(&mut x[place], odd);
                assert!(!all_finite(&x), "{count}: {odd} at {place}");
                x[place] = before;
            }
        }
        assert!(all_finite::<f64>(&[]));
    }
}

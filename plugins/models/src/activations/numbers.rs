//! Mean, spread and dead units of a module's output.

use sconce_plugin_api::prelude::*;

/// Statistics of an output over the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) mean: f64,
    /// Population standard deviation (divided by the count).
    pub(crate) std: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Fraction of elements whose absolute value is not above the threshold.
    pub(crate) zeros: f64,
    /// Fraction of units whose elements are all zero in this sense.
    pub(crate) dead: f64,
}

impl Statistics {
    /// Computes them for a tensor of floats; `None` for other types or without elements.
    pub(crate) fn of(tensor: &Tensor<'_>, threshold: f64) -> Result<Option<Statistics>> {
        let shape = tensor.shape();
        match tensor.dtype() {
            Some(DType::F32) => Ok(of(&tensor.to_contiguous::<f32>()?, shape, threshold)),
            Some(DType::F64) => Ok(of(&tensor.to_contiguous::<f64>()?, shape, threshold)),
            _ => Ok(None),
        }
    }
}

/// Number of elements that are computed side by side: each addition to a single sum would wait for the one before.
const LANES: usize = 8;

/// Computes the statistics of elements in row-major order.
fn of<T: Copy + Into<f64>>(values: &[T], shape: &[i64], threshold: f64) -> Option<Statistics> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let add = |sum: f64, x: f64| sum + x;
    let mean = folded(values, 0.0, add).into_iter().sum::<f64>() / count;
    let squares = folded(values, 0.0, |sum, x| sum + (x - mean) * (x - mean));
    let least = folded(values, f64::INFINITY, f64::min);
    let most = folded(values, f64::NEG_INFINITY, f64::max);
    let (units, inner) = units(shape);
    let mut lives = vec![false; units];
    let mut zeros = 0;
    // NaN does not count as zero.
    let is_zero = |value: T| value.into().abs() <= threshold;
    for sample in values.chunks(units * inner) {
        if inner == 1 {
            for (lives, &value) in lives.iter_mut().zip(sample) {
                zeros += usize::from(is_zero(value));
                *lives |= !is_zero(value);
            }
            continue;
        }
        for (lives, unit) in lives.iter_mut().zip(sample.chunks(inner)) {
            let count: usize = unit.iter().map(|&value| usize::from(is_zero(value))).sum();
            zeros += count;
            *lives |= count < unit.len();
        }
    }
    let dead = lives.iter().filter(|lives| !**lives).count();
    Some(Statistics {
        mean,
        std: (squares.into_iter().sum::<f64>() / count).sqrt(),
        least: least.into_iter().fold(f64::INFINITY, f64::min),
        most: most.into_iter().fold(f64::NEG_INFINITY, f64::max),
        zeros: zeros as f64 / count,
        dead: dead as f64 / units as f64,
    })
}

/// Folds every eighth element, in order, from each of the first eight on.
fn folded<T: Copy + Into<f64>>(
    values: &[T],
    start: f64,
    fold: impl Fn(f64, f64) -> f64,
) -> [f64; LANES] {
    let mut lanes = [start; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = fold(*lane, (*value).into());
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = fold(*lane, (*value).into());
    }
    lanes
}

/// Returns the number of units and the number of adjacent elements of each: channels of images (batch,
/// channels, height, width), otherwise the last dimension.
fn units(shape: &[i64]) -> (usize, usize) {
    let size = |size: &i64| usize::try_from(*size).unwrap_or(1).max(1);
    match shape {
        [_, channels, inner @ ..] if inner.len() == 2 => {
            (size(channels), inner.iter().map(size).product())
        }
        [.., last] => (size(last), 1),
        [] => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn statistics_are_those_of_the_definition() {
        // numpy: x = np.array([[0, 1, 0, -2], [0, 3, 0, 0]]); x.mean(), x.std()
        let values = [0.0, 1.0, 0.0, -2.0, 0.0, 3.0, 0.0, 0.0];
        let found = of(&values, &[2, 4], 0.0).expect("statistics");
        assert!(about(found.mean, 0.25) && about(found.std, 1.299_038_105_676_658));
        assert!(about(found.least, -2.0) && about(found.most, 3.0));
        assert!(about(found.zeros, 5.0 / 8.0) && about(found.dead, 2.0 / 4.0));
        let found = of(&values, &[2, 4], 1.0).expect("statistics");
        assert!(about(found.zeros, 6.0 / 8.0) && about(found.dead, 2.0 / 4.0));
        assert_eq!(of::<f64>(&[], &[0, 4], 0.0), None);
        let bad = of(&[0.0, f64::NAN], &[1, 2], 0.0).expect("statistics");
        assert!(bad.mean.is_nan() && about(bad.dead, 0.5));
    }

    #[test]
    fn more_elements_than_are_computed_at_once_have_the_same_statistics() {
        // 3 samples of 5 channels of 7 pixels; the last channel is dead, and one element of another is as small.
        let value = |index: usize| {
            let is_dead = index / 7 % 5 == 4 || index == 3;
            if is_dead { 0.125 } else { index as f32 - 50.0 }
        };
        let values: Vec<f32> = (0..105).map(value).collect();
        let found = of(&values, &[3, 5, 1, 7], 0.125).expect("statistics");
        let values = values.iter().map(|&value| f64::from(value));
        let mean = values.clone().sum::<f64>() / 105.0;
        let variance = values.map(|x| (x - mean).powi(2)).sum::<f64>() / 105.0;
        assert!((found.mean - mean).abs() < 1e-12 && (found.std - variance.sqrt()).abs() < 1e-12);
        assert!(about(found.least, -50.0) && about(found.most, 47.0));
        // The 50th element is 0.
        assert!(about(found.zeros, 23.0 / 105.0), "{found:?}");
        assert!(about(found.dead, 0.2));
    }

    #[test]
    fn units_are_channels_of_images_and_else_the_last_dimension() {
        // Two samples, two channels, 1 x 2 pixels: the second channel is dead.
        let values = [1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0];
        let images = of(&values, &[2, 2, 1, 2], 0.0).expect("statistics");
        assert!(about(images.dead, 0.5));
        let rows = of(&values, &[2, 2, 2], 0.0).expect("statistics");
        assert!(about(rows.dead, 0.0));
        assert_eq!(units(&[]), (1, 1));
        assert_eq!(units(&[3, 5]), (5, 1));
    }
}

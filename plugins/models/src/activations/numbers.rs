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
            Some(DType::F32) => {
                let values = tensor.to_contiguous::<f32>()?;
                Ok(of(
                    || values.iter().map(|&value| f64::from(value)),
                    shape,
                    threshold,
                ))
            }
            Some(DType::F64) => {
                let values = tensor.to_contiguous::<f64>()?;
                Ok(of(|| values.iter().copied(), shape, threshold))
            }
            _ => Ok(None),
        }
    }
}

/// Computes the statistics of elements in row-major order; iterates over them several times.
fn of<I: Iterator<Item = f64>>(
    values: impl Fn() -> I,
    shape: &[i64],
    threshold: f64,
) -> Option<Statistics> {
    let count = values().count() as f64;
    if count == 0.0 {
        return None;
    }
    let mean = values().sum::<f64>() / count;
    let squares: f64 = values().map(|value| (value - mean) * (value - mean)).sum();
    let (units, inner) = units(shape);
    let mut lives = vec![false; units];
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut zeros = 0_u64;
    for (index, value) in values().enumerate() {
        least = least.min(value);
        most = most.max(value);
        // NaN does not count as dead.
        if value.abs() <= threshold {
            zeros += 1;
        } else if let Some(unit) = lives.get_mut(index / inner % units) {
            *unit = true;
        }
    }
    let dead = lives.iter().filter(|lives| !**lives).count();
    Some(Statistics {
        mean,
        std: (squares / count).sqrt(),
        least,
        most,
        zeros: zeros as f64 / count,
        dead: dead as f64 / units as f64,
    })
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
        let found = of(|| values.into_iter(), &[2, 4], 0.0).expect("statistics");
        assert!(about(found.mean, 0.25) && about(found.std, 1.299_038_105_676_658));
        assert!(about(found.least, -2.0) && about(found.most, 3.0));
        assert!(about(found.zeros, 5.0 / 8.0) && about(found.dead, 2.0 / 4.0));
        let found = of(|| values.into_iter(), &[2, 4], 1.0).expect("statistics");
        assert!(about(found.zeros, 6.0 / 8.0) && about(found.dead, 2.0 / 4.0));
        assert_eq!(of(|| [].into_iter(), &[0, 4], 0.0), None);
        let bad = of(|| [0.0, f64::NAN].into_iter(), &[1, 2], 0.0).expect("statistics");
        assert!(bad.mean.is_nan() && about(bad.dead, 0.5));
    }

    #[test]
    fn units_are_channels_of_images_and_else_the_last_dimension() {
        // Two samples, two channels, 1 x 2 pixels: the second channel is dead.
        let values = [1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0];
        let images = of(|| values.into_iter(), &[2, 2, 1, 2], 0.0).expect("statistics");
        assert!(about(images.dead, 0.5));
        let rows = of(|| values.into_iter(), &[2, 2, 2], 0.0).expect("statistics");
        assert!(about(rows.dead, 0.0));
        assert_eq!(units(&[]), (1, 1));
        assert_eq!(units(&[3, 5]), (5, 1));
    }
}

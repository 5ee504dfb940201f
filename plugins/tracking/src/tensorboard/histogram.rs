//! Histograms of a tensor's elements.

use sconce_plugin_api::Result;
use sconce_plugin_api::tensor::{BrainHalf, DType, Tensor};

use super::event::Histogram;

/// Histogram of a tensor's finite elements, in buckets of equal width from the smallest to the
/// largest; `None` if there are no finite elements, or if they are of another type.
pub(crate) fn histogram(tensor: &Tensor<'_>, buckets: usize) -> Result<Option<Histogram>> {
    Ok(match tensor.dtype() {
        Some(DType::F32) => {
            let numbers = tensor.to_contiguous::<f32>()?;
            of(numbers.iter().map(|&x| f64::from(x)), buckets)
        }
        Some(DType::F64) => of(tensor.to_contiguous::<f64>()?.iter().copied(), buckets),
        Some(DType::Bf16) => of(
            tensor
                .to_contiguous::<BrainHalf>()?
                .iter()
                .map(|&x| f64::from(f32::from(x))),
            buckets,
        ),
        _ => None,
    })
}

fn of(numbers: impl Iterator<Item = f64> + Clone, buckets: usize) -> Option<Histogram> {
    let finite = numbers.filter(|x| x.is_finite());
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut count, mut sum, mut sum_of_squares) = (0.0, 0.0, 0.0);
    for x in finite.clone() {
        min = min.min(x);
        max = max.max(x);
        count += 1.0;
        sum += x;
        sum_of_squares += x * x;
    }
    if count == 0.0 {
        return None;
    }
    // If all elements are equal, there is one bucket.
    let buckets = if min < max { buckets.max(1) } else { 1 };
    let width = (max - min) / buckets as f64;
    let mut counts = vec![0.0; buckets];
    for x in finite {
        let bucket = if width > 0.0 {
            ((x - min) / width) as usize
        } else {
            0
        };
        if let Some(count) = counts.get_mut(bucket.min(buckets - 1)) {
            *count += 1.0;
        }
    }
    let edges = (1..buckets).map(|bucket| min + width * bucket as f64);
    Some(Histogram {
        min,
        max,
        count,
        sum,
        sum_of_squares,
        limits: edges.chain([max]).collect(),
        buckets: counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fall_into_buckets_of_one_width() {
        // As `numpy.histogram` over the finite elements: edges 0, 1, 2, 3, 4; 1 is on an edge and
        // belongs to the bucket on its right.
        let numbers = [0.0, 0.1, f64::NAN, 0.5, 0.9, 1.0, 4.0, f64::INFINITY];
        let found = of(numbers.into_iter(), 4).expect("numbers");
        assert_eq!(found.limits, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found.buckets, [4.0, 1.0, 0.0, 1.0]);
        assert_eq!((found.min, found.max, found.count), (0.0, 4.0, 6.0));
        assert!((found.sum - 6.5).abs() < 1e-12);
        let constant = of([2.0; 3].into_iter(), 4).expect("numbers");
        assert_eq!((constant.limits, constant.buckets), (vec![2.0], vec![3.0]));
        assert!(of([f64::NAN].into_iter(), 4).is_none());
    }
}

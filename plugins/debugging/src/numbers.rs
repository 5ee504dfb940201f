//! Statistics of a tensor's elements.

use sconce_plugin_api::prelude::*;

/// Non-finite elements of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Number of NaN elements.
    pub(crate) nan: usize,
    /// Number of infinite elements.
    pub(crate) infinite: usize,
    /// Index of the first element of either kind.
    pub(crate) first: Vec<usize>,
}

/// Finds the NaN elements of a tensor, and infinite ones too if `infinite`; `None` if there are
/// none, as among integers.
pub(crate) fn bad(tensor: &Tensor<'_>, infinite: bool) -> Result<Option<Bad>> {
    if tensor.dtype().is_none() || tensor.first_non_finite()?.is_none() {
        return Ok(None);
    }
    Ok(bad_of(tensor.values()?, tensor.shape(), infinite))
}

fn bad_of(values: impl Iterator<Item = f64>, shape: &[i64], infinite: bool) -> Option<Bad> {
    let mut bad = Bad::default();
    let mut first = None;
    for (index, value) in values.enumerate() {
        if value.is_nan() {
            bad.nan += 1;
        } else if value.is_infinite() && infinite {
            bad.infinite += 1;
        } else {
            continue;
        }
        first.get_or_insert(index);
    }
    let mut rest = first?;
    for size in shape.iter().rev() {
        let size = usize::try_from(*size).unwrap_or(1).max(1);
        bad.first.insert(0, rest % size);
        rest /= size;
    }
    Some(bad)
}

/// Sum of squares, largest absolute value and number of a tensor's elements; `None` if they are
/// not floats.
pub(crate) fn magnitude(tensor: &Tensor<'_>) -> Result<Option<Magnitude>> {
    match tensor.dtype() {
        Some(DType::F32) => {
            let values = tensor.to_contiguous::<f32>()?;
            Ok(Some(Magnitude::of(
                values.iter().map(|&value| f64::from(value)),
            )))
        }
        Some(DType::F64) => {
            let values = tensor.to_contiguous::<f64>()?;
            Ok(Some(Magnitude::of(values.iter().copied())))
        }
        Some(DType::F16 | DType::Bf16) => Ok(Some(Magnitude::of(tensor.values()?))),
        _ => Ok(None),
    }
}

/// Magnitude of a set of values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Magnitude {
    pub(crate) squares: f64,
    pub(crate) most: f64,
    pub(crate) count: usize,
}

impl Magnitude {
    fn of(values: impl Iterator<Item = f64>) -> Magnitude {
        let mut all = Magnitude::default();
        for value in values {
            all.squares += value * value;
            // `max` would ignore NaN.
            if value.abs() > all.most || value.is_nan() {
                all.most = value.abs();
            }
            all.count += 1;
        }
        all
    }

    /// Combines two sets of values.
    pub(crate) fn and(self, other: Magnitude) -> Magnitude {
        Magnitude {
            squares: self.squares + other.squares,
            most: if self.most >= other.most {
                self.most
            } else {
                other.most
            },
            count: self.count + other.count,
        }
    }

    /// The Euclidean norm.
    pub(crate) fn norm(self) -> f64 {
        self.squares.sqrt()
    }
}

/// The module that a parameter belongs to: its name without the last part.
pub(crate) fn module_of(parameter: &str) -> &str {
    parameter
        .rsplit_once('.')
        .map_or(parameter, |(module, _)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_counted_and_the_first_is_found() {
        let values = [0.0, 1.0, f64::INFINITY, 2.0, f64::NAN, f64::NEG_INFINITY];
        let both = bad_of(values.into_iter(), &[2, 3], true).expect("some");
        assert_eq!((both.nan, both.infinite, both.first), (1, 2, vec![0, 2]));
        let nan = bad_of(values.into_iter(), &[2, 3], false).expect("one");
        assert_eq!((nan.nan, nan.infinite, nan.first), (1, 0, vec![1, 1]));
        assert_eq!(bad_of([1.0, -2.0].into_iter(), &[2], true), None);
    }

    #[test]
    fn magnitudes_add_up() {
        let [a, b] = [[3.0, -4.0], [12.0, 0.0]].map(|values| Magnitude::of(values.into_iter()));
        assert_eq!((a.norm(), a.most, a.count), (5.0, 4.0, 2));
        assert_eq!((a.and(b).norm(), a.and(b).most), (13.0, 12.0));
        assert!(Magnitude::of([1.0, f64::NAN].into_iter()).norm().is_nan());
        assert_eq!(module_of("layer1.0.conv1.weight"), "layer1.0.conv1");
    }
}

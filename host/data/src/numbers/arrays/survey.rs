//! Survey of arrays: which there are, and what they could be used as.

use std::collections::BTreeMap;
use std::path::Path;

use super::array::{Array, ArrayElements};
use super::{npy, safetensors};
use crate::DataError;

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ArraySurvey {
    /// Shape: (samples, …).
    pub shape: Vec<usize>,
    /// Whether its elements are integers.
    pub is_integer: bool,
    /// Number of samples of each value, as long as these are whole and at most 1,000; none otherwise.
    pub values: Option<BTreeMap<i64, usize>>,
}

/// Surveys a NumPy file.
///
/// # Errors
///
/// If the file can't be read.
pub fn survey_npy(file: &Path) -> Result<ArraySurvey, DataError> {
    npy::read(file).map(|array| of(&array))
}

/// Surveys the tensors of a safetensors file, by name; tensors of unsupported types are left out.
///
/// # Errors
///
/// If the file can't be read.
pub fn survey_safetensors(file: &Path) -> Result<BTreeMap<String, ArraySurvey>, DataError> {
    let arrays = safetensors::read_all(file)?.into_iter();
    Ok(arrays.map(|(name, array)| (name, of(&array))).collect())
}

fn of(array: &Array) -> ArraySurvey {
    const MOST_VALUES: usize = 1000;
    let mut values = BTreeMap::new();
    let mut count = |number: i64| {
        *values.entry(number).or_insert(0) += 1;
        values.len() <= MOST_VALUES
    };
    let is_counted = match &array.elements {
        ArrayElements::Integers(numbers) => numbers.iter().all(|number| count(*number)),
        ArrayElements::Floats(numbers) => numbers
            .iter()
            .all(|number| number.fract() == 0.0 && count(*number as i64)),
        // A file's elements are read.
        ArrayElements::Kept(_) => false,
    };
    ArraySurvey {
        shape: array.shape.clone(),
        is_integer: matches!(array.elements, ArrayElements::Integers(_)),
        values: is_counted.then_some(values),
    }
}

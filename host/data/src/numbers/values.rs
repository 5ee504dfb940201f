//! The inputs of samples: values of this program's, or elements that stay where another part of the program has them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Inputs of all samples, one after the other, in the order of a sample's shape.
#[derive(Clone)]
pub(crate) enum InputValues {
    /// Values as batches have them.
    Own(Vec<f32>),
    /// Elements that become values when a batch is made of them.
    Kept(Arc<dyn KeptValues>),
}

/// Elements elsewhere, as values.
pub(crate) trait KeptValues: Send + Sync {
    /// The values of some elements; none if there are fewer.
    fn values(&self, range: Range<usize>) -> Option<Vec<f32>>;
}

impl InputValues {
    /// The values of one sample, `size` each; none if there is no such sample.
    pub(in crate::numbers) fn sample(&self, size: usize, sample: u32) -> Option<Cow<'_, [f32]>> {
        let start = (sample as usize).checked_mul(size)?;
        let range = start..start.checked_add(size)?;
        match self {
            InputValues::Own(values) => values.get(range).map(Cow::Borrowed),
            InputValues::Kept(elements) => elements.values(range).map(Cow::Owned),
        }
    }
}

impl From<Vec<f32>> for InputValues {
    fn from(values: Vec<f32>) -> InputValues {
        InputValues::Own(values)
    }
}

impl fmt::Debug for InputValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputValues::Own(values) => values.fmt(f),
            InputValues::Kept(_) => f.write_str("elements that are kept elsewhere"),
        }
    }
}

impl PartialEq for InputValues {
    fn eq(&self, other: &InputValues) -> bool {
        match (self, other) {
            (InputValues::Own(own), InputValues::Own(other)) => own == other,
            (InputValues::Kept(own), InputValues::Kept(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

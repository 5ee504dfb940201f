//! Outputs of a network, as rows of equal length, and what is wrong with them.

use std::fmt;

/// Row-major outputs: `count` rows of `width` elements each.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    values: &'a [f32],
    width: usize,
}

impl<'a> Rows<'a> {
    /// Rows of `width` elements. An error unless `values` has a whole number of them, and `width` is not 0.
    pub fn new(values: &'a [f32], width: usize) -> Result<Self, WrongShape> {
        if width == 0 || !values.len().is_multiple_of(width) {
            let len = values.len();
            return Err(WrongShape(format!(
                "{len} elements are not rows of {width}"
            )));
        }
        Ok(Rows { values, width })
    }

    /// Elements per row: the dimensions of an output.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    /// All elements.
    pub(crate) fn values(&self) -> &'a [f32] {
        self.values
    }

    /// A row, if there is one of this index.
    pub(crate) fn row(&self, index: usize) -> Option<&'a [f32]> {
        let begin = index.checked_mul(self.width)?;
        self.values.get(begin..begin.checked_add(self.width)?)
    }

    /// The rows in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        self.values.chunks_exact(self.width)
    }

    /// All elements as `f64`, in place of what `to` holds.
    pub(super) fn widen(&self, to: &mut Vec<f64>) {
        to.clear();
        to.extend(self.values.iter().map(|&value| f64::from(value)));
    }

    /// The number of samples, where these are `views` views of them. `what` names the rows in the error.
    pub(super) fn samples(&self, views: usize, what: &str) -> Result<usize, WrongShape> {
        let rows = self.count();
        if rows == 0 || views == 0 || !rows.is_multiple_of(views) {
            let message = format!(
                "the {what} have {rows} rows, which are not {views} views of the same samples"
            );
            return Err(WrongShape(message));
        }
        Ok(rows / views)
    }

    /// The number of views, where each has `samples` rows. `what` names the rows in the error.
    pub(super) fn views(&self, samples: usize, what: &str) -> Result<usize, WrongShape> {
        let rows = self.count();
        if rows == 0 || samples == 0 || !rows.is_multiple_of(samples) {
            return Err(WrongShape(format!(
                "the {what} have {rows} rows, which are not views of {samples} samples"
            )));
        }
        Ok(rows / samples)
    }

    /// The first `count` rows. An error if there are fewer.
    pub fn first(&self, count: usize) -> Result<Self, WrongShape> {
        match self.values.get(..count * self.width) {
            Some(values) => Ok(Rows { values, ..*self }),
            None => Err(WrongShape(format!(
                "there are {} rows, {count} are wanted",
                self.count()
            ))),
        }
    }

    /// The first `count` rows, of which there must be as many, and the others.
    pub(super) fn split(&self, count: usize) -> (Self, Self) {
        let (first, others) = self.values.split_at(count * self.width);
        let of = |values| Rows { values, ..*self };
        (of(first), of(others))
    }

    /// An error unless `other`, which `what` names, has rows as wide as these.
    pub(super) fn as_wide_as(&self, other: &Rows<'_>, what: &str) -> Result<(), WrongShape> {
        let (ours, theirs) = (self.width, other.width);
        if ours == theirs {
            return Ok(());
        }
        Err(WrongShape(format!(
            "the {what} have {theirs} columns, but the outputs {ours}"
        )))
    }

    /// An error unless `gradient` has as many elements as these rows.
    pub(super) fn fits(&self, gradient: &[f32]) -> Result<(), WrongShape> {
        let (ours, theirs) = (self.values.len(), gradient.len());
        if ours == theirs {
            return Ok(());
        }
        Err(WrongShape(format!(
            "the gradient has {theirs} elements, but the outputs {ours}"
        )))
    }
}

/// Outputs that a loss cannot be computed of. Its text says which, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongShape(pub(super) String);

impl fmt::Display for WrongShape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for WrongShape {}

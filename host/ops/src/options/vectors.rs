//! Passes over vectors, and the slices of vectors.

/// The slices of a vector along one dimension of its tensor.
///
/// A slice's elements lie in runs of `inner`, which alternate with those of the other slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slices {
    pub(crate) count: usize,
    pub(crate) inner: usize,
}

impl Slices {
    /// The whole vector as one slice.
    pub const WHOLE: Slices = Slices { count: 1, inner: 1 };

    /// The slices along the dimension `axis` of a contiguous tensor of this shape; the whole where it has no such
    /// dimension.
    pub fn along(shape: &[usize], axis: usize) -> Slices {
        match shape.get(axis) {
            Some(&count) if count > 1 => Slices {
                count,
                inner: shape[axis + 1..].iter().product::<usize>().max(1),
            },
            _ => Slices::WHOLE,
        }
    }

    /// `count` slices, each of runs of `inner` elements.
    pub fn interleaved(count: usize, inner: usize) -> Slices {
        Slices {
            count: count.max(1),
            inner: inner.max(1),
        }
    }

    /// Number of slices, at least 1.
    pub fn count(self) -> usize {
        self.count
    }

    /// Number of consecutive elements that belong to a slice, if there are several slices.
    pub(crate) fn run(self) -> usize {
        self.inner
    }
}

/// What a slice is reduced to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// Σ |x|ᵖ with this p, above 0.
    Powers(f64),
    /// The largest |x|; NaN if any x is; 0 without elements.
    Largest,
    /// How many elements are infinite or NaN.
    NotFinite,
    /// How many elements are NaN.
    NotANumber,
}

/// Changes every element by itself.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// x · factor, computed in `f64`.
    Scale(f64),
    /// x · the factor of its slice, computed in `f64`; one factor for each slice of each vector, in order. A factor of
    /// 1 leaves its slice alone.
    ScaleSlices(&'a [f64]),
    /// x, but at least the first number and at most the second; NaN stays.
    Clamp(f64, f64),
    /// The number, whatever x was.
    Fill(f64),
}

/// Combines each element with that of another vector, in the elements' type.
#[derive(Clone, Copy, Debug)]
pub enum Combination {
    /// x + weight · y.
    Add(f64),
    /// x + weight · (y − x): moves x towards y.
    Blend(f64),
    /// x · y.
    Multiply,
    /// y.
    Copy,
}

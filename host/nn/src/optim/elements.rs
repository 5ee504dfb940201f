//! What an optimizer's rule is written in: elements of a parameter, its gradient and its moments, of any floating-point type.

use std::ops::{Add, Div, Mul, Sub};

use half::bf16;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers;

/// A floating-point type of parameters.
pub(super) trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// Converts a hyper-parameter.
    fn from_f64(value: f64) -> Self;
    /// Converts a moment that was stored in less.
    fn from_f32(value: f32) -> Self;
    /// Converts a moment that is stored in less.
    fn to_f32(self) -> f32;
    /// The elements in a tensor of this type; none of another's.
    fn of(elements: SliceMut<'_>) -> &mut [Self];
    /// The square root.
    fn sqrt(self) -> Self;
    /// Returns 1 for positive and −1 for negative values, and 0 or NaN unchanged.
    fn sign(self) -> Self;
}

impl Float for f32 {
    const ZERO: f32 = 0.0;

    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn from_f32(value: f32) -> f32 {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn of(elements: SliceMut<'_>) -> &mut [f32] {
        match elements {
            SliceMut::F32(values) => values,
            _ => &mut [],
        }
    }

    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    fn sign(self) -> f32 {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self
        }
    }
}

impl Float for f64 {
    const ZERO: f64 = 0.0;

    fn from_f64(value: f64) -> f64 {
        value
    }

    fn from_f32(value: f32) -> f64 {
        f64::from(value)
    }

    fn to_f32(self) -> f32 {
        self as f32
    }

    fn of(elements: SliceMut<'_>) -> &mut [f64] {
        match elements {
            SliceMut::F64(values) => values,
            _ => &mut [],
        }
    }

    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    fn sign(self) -> f64 {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self
        }
    }
}

/// Elements of a parameter, its gradient and its moments, at the same indices; slices of moments that
/// the optimizer does not have are empty.
pub(super) struct SweepSlices<'a, T> {
    pub(super) parameter: &'a mut [T],
    pub(super) gradient: &'a [T],
    pub(super) moments: [&'a mut [T]; 3],
}

/// An elementwise update of a parameter from its gradient. Elements are independent of each other, so
/// that threads can work on separate ranges.
pub(super) trait Sweep: Sync {
    /// Updates the elements, in the parameter's own type.
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>);

    /// The kernel of the same formulas on a GPU, and its terms.
    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (optimizers::Rule, [f64; 8]);
}

/// Elements of a contiguous tensor, or of no tensor.
pub(super) enum SliceMut<'a> {
    Nothing,
    Bf16(&'a mut [bf16]),
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

impl<'a> SliceMut<'a> {
    /// Those of `bf16`; none of another type's.
    pub(super) fn bf16(self) -> &'a mut [bf16] {
        match self {
            SliceMut::Bf16(values) => values,
            _ => &mut [],
        }
    }
}

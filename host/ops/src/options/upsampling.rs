//! How images are enlarged.

/// How an image's elements are found between those of a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upsampling {
    /// The nearest element.
    Nearest,
    /// Between the two nearest along each dimension, whose centres are where PyTorch has them without `align_corners`.
    Bilinear,
}

/// An element of the output along a dimension: two of the input, and how much the second counts.
#[derive(Clone, Copy)]
pub(crate) struct Tap {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) share: f64,
}

impl Upsampling {
    /// The elements along a dimension of this length, enlarged by a factor.
    pub(crate) fn taps(self, length: usize, factor: usize) -> Vec<Tap> {
        let tap = |index: usize| match self {
            Upsampling::Nearest => Tap {
                first: index / factor,
                second: index / factor,
                share: 0.0,
            },
            Upsampling::Bilinear => {
                let place = ((index as f64 + 0.5) / factor as f64 - 0.5).max(0.0);
                let first = place as usize;
                Tap {
                    first,
                    second: (first + 1).min(length.saturating_sub(1)),
                    share: place - first as f64,
                }
            }
        };
        (0..length * factor).map(tap).collect()
    }
}

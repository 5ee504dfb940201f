//! Why a text can't become a column's inputs.

/// A reason why a text can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::numbers::csv) enum EncodingProblem {
    NotANumber,
    NotADate,
    Missing,
    Unknown,
}

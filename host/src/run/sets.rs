//! Which set of weights is in the parameters' place.

use super::swapped::Swapped;

/// The published sets that take the parameters' place.
#[derive(Default)]
pub(super) struct Sets {
    /// The parameters that are swapped for a published set.
    pub(super) swapped: Option<Swapped>,
    /// The published set that was in the parameters' place in the last evaluation; none if the parameters were
    /// evaluated themselves.
    pub(super) measured: Option<String>,
}

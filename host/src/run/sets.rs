//! The set of weights that takes the place of the parameters.

use super::kept::LoadedWeights;
use super::swapped::Swapped;

/// Published sets that take the place of the parameters.
#[derive(Default)]
pub(super) struct Sets {
    /// The parameters that are currently swapped for a published set.
    pub(super) swapped: Option<Swapped>,
    /// The published set used in the last evaluation; none if the parameters themselves were evaluated.
    pub(super) measured: Option<String>,
    /// Weights that hooks have loaded from checkpoints.
    pub(super) loaded: Vec<LoadedWeights>,
}

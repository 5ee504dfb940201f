//! Parameters that are swapped for a published set.

use candle_core::Tensor;

use crate::bridge::{BridgeState, SetTensor, exchange, tensors_of_set};
use crate::parameters::Parameters;

/// Parameters whose values are stored under a published set's names, and vice versa.
pub(in crate::run) struct Swapped {
    pub(in crate::run) set: String,
    pub(in crate::run) hook: String,
    pub(in crate::run) pairs: Vec<SetTensor>,
}

impl Swapped {
    /// Name of the set.
    pub(in crate::run) fn set(&self) -> &str {
        &self.set
    }

    /// The tensor that currently holds the values of the parameter of this name.
    pub(in crate::run) fn real(&self, name: &str) -> Option<&Tensor> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        Some(&pair.published)
    }

    /// The tensor that currently holds the values published under this name.
    pub(in crate::run) fn published(&self, name: &str) -> Option<&Tensor> {
        let parameter = name.strip_prefix(&self.set)?.strip_prefix('/')?;
        let pair = self.pairs.iter().find(|pair| pair.name == parameter)?;
        Some(&pair.parameter)
    }

    pub(in crate::run) fn exchange(&self) -> candle_core::Result<()> {
        exchange(&self.pairs)
    }
}

/// The parameters that a published set has tensors for, with these.
///
/// # Errors
///
/// If no tensor of the set is published, or one that does not fit its parameter.
pub(in crate::run) fn pairs(
    set: &str,
    parameters: &Parameters,
    shared: &BridgeState<'_>,
) -> Result<Vec<SetTensor>, String> {
    let named = parameters.iter().map(|one| (one.name(), one.tensor()));
    tensors_of_set(set, named, &shared.values)
}

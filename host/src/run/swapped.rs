//! Parameters that are swapped for a published set.

use candle_core::Tensor;

use super::exchange::exchange;
use super::tensor_result::TensorResult;

/// Parameters whose numbers stand under a published set's names, and the set's in their place.
pub(super) struct Swapped {
    pub(super) set: String,
    pub(super) hook: String,
    pub(super) pairs: Vec<Pair>,
}

pub(super) struct Pair {
    pub(super) name: String,
    pub(super) parameter: Tensor,
    pub(super) published: Tensor,
}

impl Swapped {
    /// The set's name.
    pub(super) fn set(&self) -> &str {
        &self.set
    }

    /// Where the numbers of the parameter of this name really stand.
    pub(super) fn real(&self, name: &str) -> Option<&Tensor> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        Some(&pair.published)
    }

    /// Where the numbers published under this name really stand.
    pub(super) fn published(&self, name: &str) -> Option<&Tensor> {
        let parameter = name.strip_prefix(&self.set)?.strip_prefix('/')?;
        let pair = self.pairs.iter().find(|pair| pair.name == parameter)?;
        Some(&pair.parameter)
    }

    pub(super) fn exchange(&self) -> TensorResult<()> {
        for pair in &self.pairs {
            exchange(&pair.parameter, &pair.published)?;
        }
        Ok(())
    }
}

//! Parameters that are swapped for a published set.

use candle_core::Tensor;
use sconce_ops::host_copy;

use super::tensor_result::TensorResult;

/// Parameters whose values are stored under a published set's names, and vice versa.
pub(super) struct Swapped {
    pub(super) set: String,
    pub(super) hook: String,
    pub(super) pairs: Vec<SwappedTensor>,
}

pub(super) struct SwappedTensor {
    pub(super) name: String,
    pub(super) parameter: Tensor,
    pub(super) published: Tensor,
}

impl Swapped {
    /// Name of the set.
    pub(super) fn set(&self) -> &str {
        &self.set
    }

    /// The tensor that currently holds the values of the parameter of this name.
    pub(super) fn real(&self, name: &str) -> Option<&Tensor> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        Some(&pair.published)
    }

    /// The tensor that currently holds the values published under this name.
    pub(super) fn published(&self, name: &str) -> Option<&Tensor> {
        let parameter = name.strip_prefix(&self.set)?.strip_prefix('/')?;
        let pair = self.pairs.iter().find(|pair| pair.name == parameter)?;
        Some(&pair.parameter)
    }

    pub(super) fn exchange(&self) -> TensorResult<()> {
        for pair in &self.pairs {
            host_copy::exchange(&pair.parameter, &pair.published)?;
        }
        Ok(())
    }
}

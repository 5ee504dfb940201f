//! Parameters that are swapped for a published set.

use candle_core::Tensor;
use sconce_ops::host_copy;

use crate::run::tensor_result::TensorResult;

/// Parameters whose values are stored under a published set's names, and vice versa.
pub(in crate::run) struct Swapped {
    pub(in crate::run) set: String,
    pub(in crate::run) hook: String,
    pub(in crate::run) pairs: Vec<SwappedTensor>,
}

pub(in crate::run) struct SwappedTensor {
    pub(in crate::run) name: String,
    pub(in crate::run) parameter: Tensor,
    pub(in crate::run) published: Tensor,
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

    pub(in crate::run) fn exchange(&self) -> TensorResult<()> {
        for pair in &self.pairs {
            host_copy::exchange(&pair.parameter, &pair.published)?;
        }
        Ok(())
    }
}

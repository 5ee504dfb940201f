//! Parameters that are swapped for a published set.

use candle_core::Tensor;
use sconce_ops::host_copy;

use crate::bridge::BridgeState;
use crate::parameters::Parameters;

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

    pub(in crate::run) fn exchange(&self) -> candle_core::Result<()> {
        for pair in &self.pairs {
            host_copy::exchange(&pair.parameter, &pair.published)?;
        }
        Ok(())
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
) -> Result<Vec<SwappedTensor>, String> {
    let mut pairs = Vec::new();
    for parameter in parameters.iter() {
        let name = format!("{set}/{}", parameter.name());
        let Some((_, published)) = shared.values.tensor_of(&name) else {
            continue;
        };
        let tensor = parameter.tensor();
        if published.dims() != tensor.dims() || published.dtype() != tensor.dtype() {
            return Err(format!(
                "`{name}` is {:?} of shape {:?}, the parameter {:?} of shape {:?}",
                published.dtype(),
                published.dims(),
                tensor.dtype(),
                tensor.dims()
            ));
        }
        pairs.push(SwappedTensor {
            name: parameter.name().to_owned(),
            parameter: tensor.clone(),
            published,
        });
    }
    if pairs.is_empty() {
        let first = parameters
            .at(0)
            .map_or("NAME", |parameter| parameter.name());
        return Err(format!(
            "no tensor of that set is published; publish them as `{set}/{first}` and so on"
        ));
    }
    Ok(pairs)
}

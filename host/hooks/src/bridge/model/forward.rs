//! Forward passes of the run's model that hooks ask for, with the parameters of a published set.

use candle_core::Tensor;
use sconce_ops::host_copy;
use sconce_plugin_api::ext::ForwardMode;

use crate::bridge::exposed::Exposed;
use crate::bridge::values::PublishedValues;

/// Runs the model that is trained, on the batch that hooks see and with the parameters as they are.
pub trait ForwardModel {
    /// The output of a module for the batch, without the graph below it: contiguous and not shared.
    ///
    /// # Errors
    ///
    /// Why it can't: the model can't be run apart, there is no such view or module, or the pass fails.
    fn run(&self, pass: &AskedPass<'_>) -> Result<Tensor, String>;
}

/// A forward pass that a hook asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedPass<'a> {
    /// Index of the view; `None`: the whole batch.
    pub view: Option<u32>,
    /// Name of the module; `None`: the last.
    pub module: Option<&'a str>,
    /// How batch norms and dropout compute.
    pub mode: ForwardMode,
}

/// A parameter, and the published tensor of its shape and type.
pub struct SetTensor {
    /// Name of the parameter.
    pub name: String,
    /// The parameter.
    pub parameter: Tensor,
    /// The published tensor.
    pub published: Tensor,
}

/// The parameters that a published set has tensors for, with these.
///
/// # Errors
///
/// If no tensor of the set is published, or one that does not fit its parameter.
pub fn tensors_of_set<'a>(
    set: &str,
    parameters: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    values: &PublishedValues,
) -> Result<Vec<SetTensor>, String> {
    let mut pairs = Vec::new();
    let mut first = "NAME";
    for (index, (parameter, tensor)) in parameters.into_iter().enumerate() {
        if index == 0 {
            first = parameter;
        }
        let name = format!("{set}/{parameter}");
        let Some((_, published)) = values.tensor_of(&name) else {
            continue;
        };
        if published.dims() != tensor.dims() || published.dtype() != tensor.dtype() {
            return Err(format!(
                "`{name}` is {:?} of shape {:?}, the parameter {:?} of shape {:?}",
                published.dtype(),
                published.dims(),
                tensor.dtype(),
                tensor.dims()
            ));
        }
        pairs.push(SetTensor {
            name: parameter.to_owned(),
            parameter: tensor.clone(),
            published,
        });
    }
    if pairs.is_empty() {
        return Err(format!(
            "no tensor of that set is published; publish them as `{set}/{first}` and so on"
        ));
    }
    Ok(pairs)
}

/// Exchanges the parameters' values with those of a set.
///
/// # Errors
///
/// One of the device's.
pub fn exchange(tensors: &[SetTensor]) -> candle_core::Result<()> {
    for pair in tensors {
        host_copy::exchange(&pair.parameter, &pair.published)?;
    }
    Ok(())
}

impl Exposed {
    /// The parameters of a set, as [`tensors_of_set`].
    pub(in crate::bridge) fn of_set(
        &self,
        set: &str,
        values: &PublishedValues,
    ) -> Result<Vec<SetTensor>, String> {
        let parameters = self.parameters.borrow();
        let named = parameters.iter().map(|(name, tensor)| (&**name, tensor));
        tensors_of_set(set, named, values)
    }
}

//! The tensors of the loop that hooks can see at this moment.

use std::borrow::Cow;
use std::cell::RefCell;

use candle_core::Tensor;
use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::Collection;

use super::Shared;
use crate::gradients::Gradients;
use crate::nearest::nearest;
use crate::parameters::{Kind, Parameters};

/// The index of the outputs in the batch.
const OUTPUTS: usize = 2;

/// The names of the tensors that the loop itself shows of every batch.
pub(super) const FIXED: [&str; 3] = ["inputs", "targets", "outputs"];

/// The names of a module's tensors, in the order of [`ModuleTensors`].
const MODULE: [&str; 4] = ["input", "output", "input_gradient", "output_gradient"];

/// A module's input, output, and the gradients of both, where there are any.
pub type ModuleTensors = [Option<Tensor>; MODULE.len()];

/// The tensors of the loop that hooks can see at this moment.
#[derive(Default)]
pub struct Exposed {
    parameters: RefCell<Vec<(Box<str>, Tensor)>>,
    /// Which of them are buffers.
    buffers: RefCell<Vec<bool>>,
    gradients: RefCell<Option<Gradients>>,
    /// Inputs, targets, outputs, and then whatever has a name.
    batch: RefCell<Vec<(Cow<'static, str>, Option<Tensor>)>>,
    module: RefCell<ModuleTensors>,
    optimizer: RefCell<Vec<(String, Tensor)>>,
}

impl Exposed {
    /// Shows the model's parameters, from now to the end of the run.
    pub fn set_parameters(&self, parameters: &Parameters) {
        let entry = |entry: &crate::parameters::Parameter| {
            (Box::from(entry.name()), entry.tensor().clone())
        };
        *self.parameters.borrow_mut() = parameters.iter().map(entry).collect();
        let is_buffer = |entry: &crate::parameters::Parameter| entry.kind() == Kind::Buffer;
        *self.buffers.borrow_mut() = parameters.iter().map(is_buffer).collect();
    }

    /// Shows gradients until they are taken back.
    pub fn set_gradients(&self, gradients: Gradients) {
        *self.gradients.borrow_mut() = Some(gradients);
    }

    /// Takes the gradients back, as hooks have left them.
    pub fn take_gradients(&self) -> Option<Gradients> {
        self.gradients.borrow_mut().take()
    }

    /// Shows the optimizer's tensors until others are shown.
    pub fn set_optimizer(&self, tensors: Vec<(String, Tensor)>) {
        *self.optimizer.borrow_mut() = tensors;
    }

    /// How many of the optimizer's tensors are shown.
    pub fn optimizer_count(&self) -> usize {
        self.optimizer.borrow().len()
    }

    /// Shows a batch that has no outputs yet.
    pub fn set_batch(&self, inputs: &Tensor, targets: &Tensor) {
        let mut batch = self.batch.borrow_mut();
        batch.clear();
        let tensors = [Some(inputs.clone()), Some(targets.clone()), None];
        let names = FIXED.map(Cow::Borrowed);
        batch.extend(names.into_iter().zip(tensors));
    }

    /// Shows the outputs of the batch.
    pub fn set_outputs(&self, outputs: &Tensor) {
        if let Some((_, place)) = self.batch.borrow_mut().get_mut(OUTPUTS) {
            *place = Some(outputs.clone());
        }
    }

    /// Shows another tensor of the batch; one that the loop shows itself stays what it is.
    pub fn show(&self, name: Cow<'static, str>, tensor: &Tensor) {
        let mut batch = self.batch.borrow_mut();
        match batch.iter().position(|(known, _)| *known == name) {
            Some(index) if index < FIXED.len() => {}
            Some(index) => {
                if let Some((_, place)) = batch.get_mut(index) {
                    *place = Some(tensor.clone());
                }
            }
            None => batch.push((name, Some(tensor.clone()))),
        }
    }

    /// The batch is over.
    pub fn clear_batch(&self) {
        self.batch.borrow_mut().clear();
    }

    /// Shows a module's tensors.
    pub fn set_module(&self, tensors: ModuleTensors) {
        *self.module.borrow_mut() = tensors;
    }

    /// The module is over.
    pub fn clear_module(&self) {
        *self.module.borrow_mut() = ModuleTensors::default();
    }

    pub(super) fn parameter_index(&self, name: &str) -> Result<usize, String> {
        let parameters = self.parameters.borrow();
        let names = || parameters.iter().map(|(name, _)| &**name);
        index_of("parameter", name, names)
    }
}

/// The place of a name, or a message with the nearest one.
fn index_of<'a, I>(what: &str, name: &str, names: impl Fn() -> I) -> Result<usize, String>
where
    I: Iterator<Item = &'a str>,
{
    names().position(|known| known == name).ok_or_else(|| {
        let hint = nearest(name, names()).map(|near| format!("; did you mean `{near}`?"));
        let hint = hint.unwrap_or_default();
        format!("no {what} is called `{name}`{hint}")
    })
}

/// What `sconce.tensors/1` asks, for every collection.
impl Shared<'_> {
    pub(super) fn tensor_count(&self, collection: Collection) -> usize {
        let exposed = &self.tensors;
        match collection {
            Collection::Gradients if exposed.gradients.borrow().is_none() => 0,
            Collection::Parameters | Collection::Gradients => exposed.parameters.borrow().len(),
            Collection::Batch => exposed.batch.borrow().len(),
            Collection::Module => MODULE.len(),
            Collection::Published => self.values.len(),
            Collection::Checkpoint => self.checkpoint_entries.len(),
            Collection::Optimizer => exposed.optimizer.borrow().len(),
            _ => 0,
        }
    }

    /// The name at an index; it stays where it is for as long as the tensor is lent.
    pub(super) fn tensor_name(&self, collection: Collection, index: usize) -> TextAbi {
        let exposed = &self.tensors;
        let name = match collection {
            Collection::Parameters | Collection::Gradients => {
                let parameters = exposed.parameters.borrow();
                parameters.get(index).map(|(name, _)| TextAbi::new(name))
            }
            Collection::Batch => {
                let batch = exposed.batch.borrow();
                batch.get(index).map(|(name, _)| TextAbi::new(name))
            }
            Collection::Module => MODULE.get(index).map(|name| TextAbi::new(name)),
            Collection::Published => self.values.name(index),
            Collection::Checkpoint => self.checkpoint_entries.name(index),
            Collection::Optimizer => {
                let optimizer = exposed.optimizer.borrow();
                optimizer.get(index).map(|(name, _)| TextAbi::new(name))
            }
            _ => None,
        };
        name.unwrap_or(TextAbi::EMPTY)
    }

    pub(super) fn tensor_index(&self, collection: Collection, name: &str) -> Result<usize, String> {
        let exposed = &self.tensors;
        match collection {
            Collection::Batch => {
                // These three have their places also where there is no batch.
                let fixed = FIXED.iter().position(|known| *known == name);
                if let Some(index) = fixed {
                    return Ok(index);
                }
                let batch = exposed.batch.borrow();
                index_of("tensor of the batch", name, || {
                    batch.iter().map(|(name, _)| &**name)
                })
            }
            Collection::Module => index_of("tensor of a module", name, || MODULE.into_iter()),
            Collection::Published => self.values.tensor_index(name),
            Collection::Checkpoint => self.checkpoint_entries.tensor_index(name),
            Collection::Optimizer => {
                let optimizer = exposed.optimizer.borrow();
                index_of("tensor of the optimizer", name, || {
                    optimizer.iter().map(|(name, _)| name.as_str())
                })
            }
            _ => exposed.parameter_index(name),
        }
    }

    /// Whether a tensor is one of the model's buffers.
    pub(super) fn is_buffer(&self, collection: Collection, index: usize) -> bool {
        let buffers = self.tensors.buffers.borrow();
        collection == Collection::Parameters && buffers.get(index).copied().unwrap_or(false)
    }

    pub(super) fn tensor(&self, collection: Collection, index: usize) -> Option<Tensor> {
        let exposed = &self.tensors;
        match collection {
            Collection::Parameters => {
                let parameters = exposed.parameters.borrow();
                parameters.get(index).map(|(_, tensor)| tensor.clone())
            }
            Collection::Gradients => exposed.gradients.borrow().as_ref()?.at(index).cloned(),
            Collection::Batch => exposed.batch.borrow().get(index)?.1.clone(),
            Collection::Module => exposed.module.borrow().get(index)?.clone(),
            Collection::Published => self.values.tensor(index),
            Collection::Checkpoint => self.checkpoint_entries.tensor(index),
            Collection::Optimizer => {
                let optimizer = exposed.optimizer.borrow();
                optimizer.get(index).map(|(_, tensor)| tensor.clone())
            }
            _ => None,
        }
    }

    /// The tensor at an index, contiguous: a gradient is made so, in its place.
    pub(super) fn writable_tensor(
        &self,
        collection: Collection,
        index: usize,
    ) -> candle_core::Result<Option<Tensor>> {
        let Some(tensor) = self.tensor(collection, index) else {
            return Ok(None);
        };
        if tensor.is_contiguous() {
            return Ok(Some(tensor));
        }
        let tensor = tensor.contiguous()?;
        if let (Collection::Gradients, Some(gradients)) =
            (collection, &mut *self.tensors.gradients.borrow_mut())
        {
            gradients.set(index, tensor.clone());
            return Ok(Some(tensor));
        }
        candle_core::bail!("it is not contiguous")
    }
}

//! The loop's tensors that hooks can currently see.

use std::borrow::Cow;
use std::cell::RefCell;

use candle_core::{Device, Tensor};

use super::foreign::ForeignTensors;
use super::names::{FIXED, MODULE, NextName};
use sconce_parameters::gradients::Gradients;
use sconce_parameters::{ParameterKind, Parameters};
use sconce_plugin_api::ext::Collection;

/// Index of the outputs in the batch.
const OUTPUTS: usize = 2;

/// A module's input and output and the gradients of both, if present.
pub type ModuleTensors = [Option<Tensor>; MODULE.len()];

/// The loop's tensors that hooks can currently see.
#[derive(Default)]
pub struct Exposed {
    /// Those of a loop that is not candle's.
    pub foreign: ForeignTensors,
    pub(super) parameters: RefCell<Vec<(Box<str>, Tensor)>>,
    next_name: NextName,
    /// Which of the parameters are buffers.
    pub(super) buffers: RefCell<Vec<bool>>,
    pub(super) gradients: RefCell<Option<Gradients>>,
    /// Inputs, targets and outputs, then tensors that the task shows by name.
    pub(super) batch: RefCell<Vec<(Cow<'static, str>, Option<Tensor>)>>,
    /// Indices of the batch's samples in the data set, and their tensor, created when a hook first
    /// reads it.
    indices: RefCell<(Vec<u32>, Option<Tensor>)>,
    pub(super) module: RefCell<ModuleTensors>,
    pub(super) optimizer: RefCell<Vec<(String, Tensor)>>,
}

impl Exposed {
    /// Exposes the model's parameters until the end of the run.
    pub fn set_parameters(&self, parameters: &Parameters) {
        let entry = |entry: &sconce_parameters::Parameter| {
            (Box::from(entry.name()), entry.tensor().clone())
        };
        *self.parameters.borrow_mut() = parameters.iter().map(entry).collect();
        let is_buffer =
            |entry: &sconce_parameters::Parameter| entry.kind() == ParameterKind::Buffer;
        *self.buffers.borrow_mut() = parameters.iter().map(is_buffer).collect();
    }

    /// Exposes gradients until they are taken back.
    pub fn set_gradients(&self, gradients: Gradients) {
        *self.gradients.borrow_mut() = Some(gradients);
    }

    /// Takes the gradients back, with any changes that hooks made.
    pub fn take_gradients(&self) -> Option<Gradients> {
        self.gradients.borrow_mut().take()
    }

    /// Exposes the optimizer's tensors, replacing the previous ones.
    pub fn set_optimizer(&self, tensors: Vec<(String, Tensor)>) {
        *self.optimizer.borrow_mut() = tensors;
    }

    /// Number of the optimizer's exposed tensors.
    pub fn optimizer_count(&self) -> usize {
        self.optimizer.borrow().len()
    }

    /// Exposes a batch that has no outputs yet.
    pub fn set_batch(&self, inputs: &Tensor, targets: &Tensor, indices: &[u32]) {
        self.set_indices(indices);
        let mut batch = self.batch.borrow_mut();
        batch.clear();
        let tensors = [Some(inputs.clone()), Some(targets.clone()), None];
        let names = FIXED.map(Cow::Borrowed);
        batch.extend(names.into_iter().zip(tensors));
    }

    fn set_indices(&self, indices: &[u32]) {
        let (numbers, tensor) = &mut *self.indices.borrow_mut();
        numbers.clear();
        numbers.extend_from_slice(indices);
        *tensor = None;
    }

    /// Indices of the batch's samples, of shape (samples); `None` without a batch.
    pub(super) fn indices(&self) -> Option<Tensor> {
        let (numbers, tensor) = &mut *self.indices.borrow_mut();
        if tensor.is_none() && !numbers.is_empty() {
            *tensor = Tensor::from_slice(numbers, numbers.len(), &Device::Cpu).ok();
        }
        tensor.clone()
    }

    /// Exposes the outputs of the batch, without the graph below them: it holds all activations, which the
    /// backward pass is to free.
    pub fn set_outputs(&self, outputs: &Tensor) {
        if let Some((_, place)) = self.batch.borrow_mut().get_mut(OUTPUTS) {
            *place = Some(outputs.detach());
        }
    }

    /// Exposes another tensor of the batch, without the graph below it; the loop's own three can't be replaced.
    pub fn show(&self, name: Cow<'static, str>, tensor: &Tensor) {
        let mut batch = self.batch.borrow_mut();
        match batch.iter().position(|(known, _)| *known == name) {
            Some(index) if index < FIXED.len() => {}
            Some(index) => {
                if let Some((_, place)) = batch.get_mut(index) {
                    *place = Some(tensor.detach());
                }
            }
            None => batch.push((name, Some(tensor.detach()))),
        }
    }

    /// Removes the batch's tensors.
    pub fn clear_batch(&self) {
        self.batch.borrow_mut().clear();
        self.set_indices(&[]);
    }

    /// Exposes a module's tensors.
    pub fn set_module(&self, tensors: ModuleTensors) {
        *self.module.borrow_mut() = tensors;
    }

    /// Removes the module's tensors.
    pub fn clear_module(&self) {
        *self.module.borrow_mut() = ModuleTensors::default();
    }

    pub(super) fn parameter_index(&self, name: &str) -> Result<usize, String> {
        if !self.foreign.is_empty() {
            return self.foreign.index(Collection::Parameters, name);
        }
        let parameters = self.parameters.borrow();
        let names = || parameters.iter().map(|(name, _)| &**name);
        let at = |index: usize| parameters.get(index).map(|(name, _)| &**name);
        self.next_name.index_of("parameter", name, at, names)
    }
}

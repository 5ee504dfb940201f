//! Access to the tensors lent to hooks, by collection and index.

use candle_core::Tensor;
use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::Collection;

use super::names::{FIXED, INDICES, INDICES_AT, MODULE, index_of};
use super::shared::BridgeState;
use super::witness::HookAction;

/// Answers to `sconce.tensors/1`, for every collection.
impl BridgeState<'_> {
    /// Why a tensor is not lent for writing, if it is not.
    pub(super) fn why_not_lent(
        &self,
        collection: Collection,
        index: usize,
    ) -> Option<(Status, String)> {
        if let Some(message) = self.why_not_writable(collection, index) {
            return Some((Status::NOT_LEGAL_HERE, message));
        }
        let seen = self.sees(&HookAction::Writes(collection));
        seen.err().map(|message| (Status::INVALID, message))
    }

    /// Reason why a tensor can't be written to at the current mount point, or `None` if it can.
    fn why_not_writable(&self, collection: Collection, index: usize) -> Option<String> {
        if collection == Collection::Published && self.point().is_some() {
            return self.values.why_not_writable(index, self.hook());
        }
        if let Some(message) = self.why_not_shared(collection) {
            return Some(message);
        }
        // Only the batch has tensors with different rules.
        let name = match collection {
            Collection::Batch => FIXED.get(index).copied().unwrap_or_default(),
            _ => "",
        };
        collection.why_not_changed_at(name, self.point())
    }

    pub(super) fn tensor_count(&self, collection: Collection) -> usize {
        let exposed = &self.tensors;
        match collection {
            _ if exposed.foreign.has(collection) => exposed.foreign.count(collection),
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

    /// Returns the name at an index; the text does not move while the tensor is lent.
    pub(super) fn tensor_name(&self, collection: Collection, index: usize) -> TextAbi {
        let exposed = &self.tensors;
        let name = match collection {
            _ if exposed.foreign.has(collection) => exposed.foreign.name(collection, index),
            Collection::Parameters | Collection::Gradients => {
                let parameters = exposed.parameters.borrow();
                parameters.get(index).map(|(name, _)| TextAbi::new(name))
            }
            Collection::Batch if index == INDICES_AT => Some(TextAbi::new(INDICES)),
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

    /// Name at an index, for messages.
    pub(crate) fn name_at(&self, collection: Collection, index: usize) -> String {
        let name = self.tensor_name(collection, index);
        // SAFETY: nothing renames or removes a tensor meanwhile.
        unsafe { name.read() }.unwrap_or_default().to_owned()
    }

    pub(super) fn tensor_index(&self, collection: Collection, name: &str) -> Result<usize, String> {
        let exposed = &self.tensors;
        match collection {
            _ if exposed.foreign.has(collection) => exposed.foreign.index(collection, name),
            Collection::Batch => {
                // The loop's three tensors have fixed indices, with or without a batch.
                let fixed = FIXED.iter().position(|known| *known == name);
                if let Some(index) = fixed {
                    return Ok(index);
                }
                let batch = exposed.batch.borrow();
                let names = || batch.iter().map(|(name, _)| &**name);
                // A task's own tensor of that name takes precedence.
                if name == INDICES && !names().any(|known| known == name) {
                    return Ok(INDICES_AT);
                }
                index_of("tensor of the batch", name, names)
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
        if collection == Collection::Parameters && !self.tensors.foreign.is_empty() {
            return self.tensors.foreign.is_buffer(index);
        }
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
            Collection::Batch if index == INDICES_AT => exposed.indices(),
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

    /// Returns the tensor at an index, contiguous; a non-contiguous gradient is replaced by a
    /// contiguous copy.
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

//! Parameters, gradients, the batch and the optimizer's state.

use super::moment::{
    ChangesGradients, ChangesInputs, ChangesOutputs, ChangesParameters, HasBatch, HasOutputs,
    Moment,
};
use super::{At, TaskView};
use crate::abi::{Status, ViewAbi};
use crate::error::outcome;
use crate::ext::{Collection, TensorAbi};
use crate::tensor::{Tensor, TensorMut};
use crate::{HookError, Result};

impl TaskView<'_> {
    /// The model's parameters and buffers, in order of registration. Copies nothing.
    pub fn parameters(&self) -> Tensors<'_> {
        self.tensors(Collection::Parameters)
    }

    /// The parameter or buffer with this name.
    ///
    /// # Errors
    ///
    /// If there is none; the message suggests the nearest name.
    #[track_caller]
    pub fn parameter(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Parameters, name)
    }

    /// The tensors of a collection: parameters, gradients, what hooks have published, the optimizer's state under names such
    /// as `fc1.weight.exp_avg`, and others. Copies nothing.
    ///
    /// A collection that there is not at this point is empty. See also [`storage`](TaskView::storage).
    pub fn tensors(&self, collection: Collection) -> Tensors<'_> {
        Tensors {
            count: self.count(collection),
            view: self,
            collection,
            next: 0,
        }
    }

    #[track_caller]
    pub(super) fn find(&self, collection: Collection, name: &str) -> Result<Tensor<'_>> {
        let index = self.index_of(collection, name)?;
        let abi = self
            .at(collection, index, false)?
            .ok_or_else(|| none(name))?;
        // SAFETY: the host lends the tensor for this call; while this view is borrowed, the hook cannot
        // obtain a mutable view of it.
        unsafe { Tensor::new(abi) }
    }

    #[track_caller]
    pub(super) fn find_mut(&mut self, collection: Collection, name: &str) -> Result<TensorMut<'_>> {
        let index = self.index_of(collection, name)?;
        let abi = self
            .at(collection, index, true)?
            .ok_or_else(|| none(name))?;
        // SAFETY: the host lends the tensor for this call; this view is borrowed exclusively, so no other
        // view of the tensor exists.
        unsafe { TensorMut::borrowed(abi) }
    }

    #[track_caller]
    pub(super) fn for_each(
        &mut self,
        collection: Collection,
        mut change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        for index in 0..self.count(collection) {
            if let Some(abi) = self.at(collection, index, true)? {
                // SAFETY: as in `find_mut`; each view is dropped before the next is created.
                change(unsafe { TensorMut::borrowed(abi) }?)?;
            }
        }
        Ok(())
    }

    pub(super) fn count(&self, collection: Collection) -> usize {
        let tensors = self.host.tensors();
        tensors.map_or(0, |tensors| tensors.count(collection as u32))
    }

    #[track_caller]
    pub(super) fn index_of(&self, collection: Collection, name: &str) -> Result<usize> {
        outcome(self.host.tensors()?.find(collection as u32, name))
    }

    /// The tensor at an index; `None` if that slot is empty.
    #[track_caller]
    fn at(&self, collection: Collection, index: usize, write: bool) -> Result<Option<TensorAbi>> {
        match self.host.tensors()?.at(collection as u32, index, write) {
            Err(refusal) if refusal.status == Status::NOT_FOUND => Ok(None),
            answer => outcome(answer).map(Some),
        }
    }
}

#[track_caller]
#[cold]
pub(super) fn none(name: &str) -> HookError {
    HookError::new(format_args!("there is no `{name}` at this moment"))
}

/// Iterator over the tensors of a collection, in the host's order.
pub struct Tensors<'view> {
    view: &'view TaskView<'view>,
    collection: Collection,
    next: usize,
    count: usize,
}

impl<'view> Tensors<'view> {
    /// The tensor with this name.
    ///
    /// # Errors
    ///
    /// If there is none at this point; the message suggests the nearest name.
    #[track_caller]
    pub fn named(&self, name: &str) -> Result<Tensor<'view>> {
        self.view.find(self.collection, name)
    }

    /// Whether there is a tensor of this name at this point, such as the gradient of a parameter that may be frozen.
    ///
    /// Looks at no element: nothing is copied from a GPU, as it is by [`named`](Tensors::named) and the like.
    ///
    /// # Errors
    ///
    /// If the host refuses to say.
    #[track_caller]
    pub fn has(&self, name: &str) -> Result<bool> {
        self.view.has_tensor(self.collection, name)
    }
}

impl<'view> Iterator for Tensors<'view> {
    type Item = Tensor<'view>;

    fn next(&mut self) -> Option<Tensor<'view>> {
        while self.next < self.count {
            let index = self.next;
            self.next += 1;
            if let Ok(Some(abi)) = self.view.at(self.collection, index, false) {
                // SAFETY: as in `find`: this iterator, and so each of its tensors, borrows the view.
                if let Ok(tensor) = unsafe { Tensor::new(abi) } {
                    return Some(tensor);
                }
            }
        }
        None
    }
}

impl<M: Moment> At<'_, M> {
    /// A parameter or buffer for in-place modification.
    #[track_caller]
    pub fn parameter_mut(&mut self, name: &str) -> Result<TensorMut<'_>>
    where
        M: ChangesParameters,
    {
        self.find_mut(Collection::Parameters, name)
    }

    /// Modifies every parameter and buffer in place.
    #[track_caller]
    pub fn for_each_parameter(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()>
    where
        M: ChangesParameters,
    {
        self.for_each(Collection::Parameters, change)
    }

    /// The gradients, under their parameters' names.
    ///
    /// At `after_backward` they are those of the batch, at `before_update` the sums over all batches of the
    /// update.
    pub fn gradients(&self) -> Tensors<'_>
    where
        M: ChangesGradients,
    {
        self.tensors(Collection::Gradients)
    }

    /// The gradient of the parameter with this name.
    #[track_caller]
    pub fn gradient(&self, name: &str) -> Result<Tensor<'_>>
    where
        M: ChangesGradients,
    {
        self.find(Collection::Gradients, name)
    }

    /// A gradient for in-place modification.
    #[track_caller]
    pub fn gradient_mut(&mut self, name: &str) -> Result<TensorMut<'_>>
    where
        M: ChangesGradients,
    {
        self.find_mut(Collection::Gradients, name)
    }

    /// Modifies every gradient in place.
    #[track_caller]
    pub fn for_each_gradient(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()>
    where
        M: ChangesGradients,
    {
        self.for_each(Collection::Gradients, change)
    }

    /// Number of samples in the current batch.
    pub fn batch_size(&self) -> u64
    where
        M: HasBatch,
    {
        self.abi.batch_size
    }

    /// Whether the optimizer steps at the end of this batch.
    ///
    /// Under gradient accumulation this is true for every n-th batch and the last one of the epoch, otherwise
    /// always.
    pub fn is_update_due(&self) -> bool
    where
        M: HasBatch,
    {
        self.abi.flags & ViewAbi::UPDATES != 0
    }

    /// Inputs of the batch.
    #[track_caller]
    pub fn inputs(&self) -> Result<Tensor<'_>>
    where
        M: HasBatch,
    {
        self.find(Collection::Batch, "inputs")
    }

    /// Inputs of the batch for in-place modification.
    #[track_caller]
    pub fn inputs_mut(&mut self) -> Result<TensorMut<'_>>
    where
        M: ChangesInputs,
    {
        self.find_mut(Collection::Batch, "inputs")
    }

    /// Targets of the batch.
    #[track_caller]
    pub fn targets(&self) -> Result<Tensor<'_>>
    where
        M: HasBatch,
    {
        self.find(Collection::Batch, "targets")
    }

    /// Indices of the batch's samples in the phase's data set, from 0, with shape (samples) and type `u32`. They are not
    /// among the [`variables`](At::variables).
    ///
    /// # Errors
    ///
    /// If the host does not provide the indices.
    #[track_caller]
    pub fn sample_indices(&self) -> Result<Tensor<'_>>
    where
        M: HasBatch,
    {
        self.find(Collection::Batch, "indices")
    }

    /// The model's outputs.
    #[track_caller]
    pub fn outputs(&self) -> Result<Tensor<'_>>
    where
        M: HasOutputs,
    {
        self.find(Collection::Batch, "outputs")
    }

    /// The model's outputs for in-place modification, before the loss is computed.
    ///
    /// The backward pass treats the modification as the identity: gradients pass through unchanged.
    #[track_caller]
    pub fn outputs_mut(&mut self) -> Result<TensorMut<'_>>
    where
        M: ChangesOutputs,
    {
        self.find_mut(Collection::Batch, "outputs")
    }

    /// The batch's tensors by name: `inputs`, `targets`, `outputs`, `loss` (a scalar), and others of the
    /// task.
    pub fn variables(&self) -> Tensors<'_>
    where
        M: HasBatch,
    {
        self.tensors(Collection::Batch)
    }

    /// The tensor of the batch with this name.
    ///
    /// # Errors
    ///
    /// If there is none at this point of the run; the message suggests the nearest name.
    #[track_caller]
    pub fn variable(&self, name: &str) -> Result<Tensor<'_>>
    where
        M: HasBatch,
    {
        self.find(Collection::Batch, name)
    }
}

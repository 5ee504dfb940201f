//! Parameters, gradients, the batch and the optimizer's state.

use super::TaskView;
use crate::abi::{ErrorAbi, Status, TextAbi};
use crate::error::outcome;
use crate::ext::{Collection, TensorAbi, TensorsTable};
use crate::tensor::{Tensor, TensorMut};
use crate::{HookError, Result};

impl TaskView<'_> {
    /// The model's parameters and buffers, in order of registration. Copies nothing.
    pub fn parameters(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Parameters)
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

    /// A parameter or buffer for in-place modification.
    ///
    /// Legal where no forward or backward pass is in progress: at `before_run`, before and after loops and
    /// epochs, at `after_iter`, `after_cycle`, `after_update` and `after_load_checkpoint`.
    #[track_caller]
    pub fn parameter_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Parameters, name)
    }

    /// Modifies every parameter and buffer in place.
    ///
    /// Legal where [`parameter_mut`](TaskView::parameter_mut) is.
    #[track_caller]
    pub fn for_each_parameter(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.for_each(Collection::Parameters, change)
    }

    /// The gradients, under their parameters' names; empty at points without gradients.
    ///
    /// At `after_backward` they are those of the batch, at `before_update` the sums over all batches of the
    /// update.
    pub fn gradients(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Gradients)
    }

    /// The gradient of the parameter with this name.
    #[track_caller]
    pub fn gradient(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Gradients, name)
    }

    /// A gradient for in-place modification. Legal at `after_backward` and `before_update`.
    #[track_caller]
    pub fn gradient_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Gradients, name)
    }

    /// Modifies every gradient in place. Legal at `after_backward` and `before_update`.
    #[track_caller]
    pub fn for_each_gradient(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.for_each(Collection::Gradients, change)
    }

    /// Inputs of the batch; available from `before_iter` to `after_iter`.
    #[track_caller]
    pub fn inputs(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "inputs")
    }

    /// Inputs of the batch for in-place modification. Legal at `before_iter`.
    #[track_caller]
    pub fn inputs_mut(&mut self) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Batch, "inputs")
    }

    /// Targets of the batch; available from `before_iter` to `after_iter`.
    #[track_caller]
    pub fn targets(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "targets")
    }

    /// Indices of the batch's samples in the phase's data set, from 0, with shape (samples) and type `u32`.
    ///
    /// Available from `before_iter` to `after_iter`; not among the [`variables`](TaskView::variables). Since
    /// 1.2.
    ///
    /// # Errors
    ///
    /// If there is no batch, or the host does not provide the indices.
    #[track_caller]
    pub fn sample_indices(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "indices")
    }

    /// The model's outputs; available from `after_forward` to `after_iter`.
    #[track_caller]
    pub fn outputs(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "outputs")
    }

    /// The model's outputs for in-place modification, before the loss is computed. Legal at `after_forward`.
    ///
    /// The backward pass treats the modification as the identity: gradients pass through unchanged.
    #[track_caller]
    pub fn outputs_mut(&mut self) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Batch, "outputs")
    }

    /// The batch's tensors by name: `inputs`, `targets`, `outputs`, `loss` (a scalar), and others of the
    /// task.
    pub fn variables(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Batch)
    }

    /// The tensor of the batch with this name.
    ///
    /// # Errors
    ///
    /// If there is none at this point of the run; the message suggests the nearest name.
    #[track_caller]
    pub fn variable(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, name)
    }

    /// The optimizer's state tensors, under names such as `fc1.weight.exp_avg`. Copies nothing.
    ///
    /// Empty before the first update.
    pub fn optimizer_state(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Optimizer)
    }

    /// The optimizer's state tensor with this name.
    #[track_caller]
    pub fn optimizer_tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Optimizer, name)
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

    /// A tensor of one collection for reading and one of another for writing.
    ///
    /// The two collections must not share elements.
    #[track_caller]
    pub(super) fn find_both(
        &mut self,
        (read, read_name): (Collection, &str),
        (write, write_name): (Collection, &str),
    ) -> Result<(Tensor<'_>, TensorMut<'_>)> {
        let index = self.index_of(write, write_name)?;
        let written = self.at(write, index, true)?;
        let written = written.ok_or_else(|| none(write_name))?;
        let read = self.find(read, read_name)?;
        // SAFETY: as in `find_mut`; the only other view is of a tensor of another collection, which shares no
        // elements with this one.
        Ok((read, unsafe { TensorMut::borrowed(written) }?))
    }

    #[track_caller]
    fn for_each(
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
        self.tables.tensors.map_or(0, |table| {
            // SAFETY: the context was provided with this view.
            unsafe { (table.count)(self.abi.context, collection as u32) }
        })
    }

    #[track_caller]
    pub(super) fn index_of(&self, collection: Collection, name: &str) -> Result<usize> {
        let table = Self::table(self.tables.tensors, TensorsTable::ID)?;
        let mut index = 0;
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view; name, index and error are borrowed for the call.
        let status = unsafe {
            (table.find)(
                self.abi.context,
                collection as u32,
                TextAbi::new(name),
                &raw mut index,
                &raw mut error,
            )
        };
        outcome(status, &error)?;
        Ok(index)
    }

    /// The tensor at an index; `None` if that slot is empty.
    #[track_caller]
    fn at(&self, collection: Collection, index: usize, write: bool) -> Result<Option<TensorAbi>> {
        let table = Self::table(self.tables.tensors, TensorsTable::ID)?;
        let mut abi = TensorAbi::EMPTY;
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view; tensor and error are borrowed for the call.
        let status = unsafe {
            (table.at)(
                self.abi.context,
                collection as u32,
                index,
                u32::from(write),
                &raw mut abi,
                &raw mut error,
            )
        };
        if status == Status::NOT_FOUND.0 {
            return Ok(None);
        }
        outcome(status, &error)?;
        Ok(Some(abi))
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
    fn new(view: &'view TaskView<'_>, collection: Collection) -> Self {
        Tensors {
            count: view.count(collection),
            view,
            collection,
            next: 0,
        }
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

//! Parameters, gradients, the batch and the optimizer's state.

use super::TaskView;
use crate::abi::{ErrorAbi, Status, TextAbi};
use crate::export::outcome;
use crate::ext::{Collection, TensorAbi, TensorsTable};
use crate::tensor::{Tensor, TensorMut};
use crate::{Error, Result};

impl TaskView<'_> {
    /// The model's parameters and buffers, in the order of their registration. Copies nothing.
    pub fn parameters(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Parameters)
    }

    /// The parameter or buffer of this name.
    ///
    /// # Errors
    ///
    /// Where there is none; the error has the nearest name.
    #[track_caller]
    pub fn parameter(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Parameters, name)
    }

    /// A parameter to be changed in place. Legal where the parameters stand still: around the run,
    /// loops, epochs and iterations, at `after_cycle` and `after_update`.
    #[track_caller]
    pub fn parameter_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Parameters, name)
    }

    /// Changes every parameter and buffer in place. Legal where
    /// [`parameter_mut`](TaskView::parameter_mut) is.
    #[track_caller]
    pub fn for_each_parameter(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.for_each(Collection::Parameters, change)
    }

    /// The gradients, under their parameters' names: at `after_backward` those of the batch, at
    /// `before_update` the sums over the batches of the update. Elsewhere there are none.
    pub fn gradients(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Gradients)
    }

    /// The gradient of the parameter of this name.
    #[track_caller]
    pub fn gradient(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Gradients, name)
    }

    /// A gradient to be changed in place. Legal where there are gradients.
    #[track_caller]
    pub fn gradient_mut(&mut self, name: &str) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Gradients, name)
    }

    /// Changes every gradient in place.
    #[track_caller]
    pub fn for_each_gradient(
        &mut self,
        change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.for_each(Collection::Gradients, change)
    }

    /// The batch's inputs: from `before_iter` to `after_iter`.
    #[track_caller]
    pub fn inputs(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "inputs")
    }

    /// The batch's inputs to be changed in place. Legal at `before_iter`.
    #[track_caller]
    pub fn inputs_mut(&mut self) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Batch, "inputs")
    }

    /// The batch's targets: from `before_iter` to `after_iter`.
    #[track_caller]
    pub fn targets(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "targets")
    }

    /// Which samples of the phase's data set the batch has, from 0, (samples) of `u32`: from
    /// `before_iter` to `after_iter`. Not among the [`variables`](TaskView::variables). Since 1.2.
    ///
    /// # Errors
    ///
    /// Where there is no batch, and with a host that does not tell.
    #[track_caller]
    pub fn sample_indices(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "indices")
    }

    /// The model's outputs: from `after_forward` to `after_iter`.
    #[track_caller]
    pub fn outputs(&self) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, "outputs")
    }

    /// The model's outputs to be changed in place, before the loss sees them. Legal at
    /// `after_forward`. The gradient passes through as if nothing had been changed.
    #[track_caller]
    pub fn outputs_mut(&mut self) -> Result<TensorMut<'_>> {
        self.find_mut(Collection::Batch, "outputs")
    }

    /// The batch's tensors by name: `inputs`, `targets`, `outputs`, then `loss` (a scalar), and what
    /// else the task names.
    pub fn variables(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Batch)
    }

    /// A tensor of the batch by its name.
    ///
    /// # Errors
    ///
    /// Where there is none at this moment; the error has the nearest name.
    #[track_caller]
    pub fn variable(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(Collection::Batch, name)
    }

    /// The optimizer's numbers for each parameter, under names such as `fc1.weight.exp_avg`; there
    /// are none before the first update. Copies nothing.
    pub fn optimizer_state(&self) -> Tensors<'_> {
        Tensors::new(self, Collection::Optimizer)
    }

    /// One of the optimizer's tensors by its name.
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
        // SAFETY: the host lends the tensor for this call; while this view is borrowed nothing
        // else of this hook can ask for it to be written to.
        unsafe { Tensor::new(abi) }
    }

    #[track_caller]
    pub(super) fn find_mut(&mut self, collection: Collection, name: &str) -> Result<TensorMut<'_>> {
        let index = self.index_of(collection, name)?;
        let abi = self
            .at(collection, index, true)?
            .ok_or_else(|| none(name))?;
        // SAFETY: the host lends the tensor for this call; this view is borrowed alone, so no
        // other view of the tensor is alive.
        unsafe { TensorMut::new(abi) }
    }

    /// A tensor of one collection to be read and one of another to be changed. The two collections
    /// must not share elements.
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
        // SAFETY: as in `find_mut`; the one other view is of a tensor of another collection, whose
        // elements are its own.
        Ok((read, unsafe { TensorMut::new(written) }?))
    }

    #[track_caller]
    fn for_each(
        &mut self,
        collection: Collection,
        mut change: impl FnMut(TensorMut<'_>) -> Result<()>,
    ) -> Result<()> {
        for index in 0..self.count(collection) {
            if let Some(abi) = self.at(collection, index, true)? {
                // SAFETY: as in `find_mut`; each tensor is given back before the next is asked for.
                change(unsafe { TensorMut::new(abi) }?)?;
            }
        }
        Ok(())
    }

    fn count(&self, collection: Collection) -> usize {
        self.tables.tensors.map_or(0, |table| {
            // SAFETY: the context came with this view.
            unsafe { (table.count)(self.abi.context, collection as u32) }
        })
    }

    #[track_caller]
    fn index_of(&self, collection: Collection, name: &str) -> Result<usize> {
        let table = Self::table(self.tables.tensors, TensorsTable::ID)?;
        let mut index = 0;
        let mut error = ErrorAbi::new();
        // SAFETY: the context came with this view; name, index and error are borrowed for the call.
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

    /// The tensor at an index, or nothing where the place is empty.
    #[track_caller]
    fn at(&self, collection: Collection, index: usize, write: bool) -> Result<Option<TensorAbi>> {
        let table = Self::table(self.tables.tensors, TensorsTable::ID)?;
        let mut abi = TensorAbi::EMPTY;
        let mut error = ErrorAbi::new();
        // SAFETY: the context came with this view; tensor and error are borrowed for the call.
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
fn none(name: &str) -> Error {
    Error::new(format_args!("there is no `{name}` at this moment"))
}

/// The tensors of a collection, in the host's order.
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
                // SAFETY: as in `find`: this iterator borrows the view, and so do its tensors.
                if let Ok(tensor) = unsafe { Tensor::new(abi) } {
                    return Some(tensor);
                }
            }
        }
        None
    }
}

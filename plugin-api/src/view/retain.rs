//! Tensors that outlive the call.

use std::ptr;

use super::TaskView;
use crate::Result;
use crate::abi::{ErrorAbi, Status};
use crate::error::outcome;
use crate::ext::{Collection, RetainTable, TensorAbi};
use crate::tensor::RetainedTensor;

impl TaskView<'_> {
    /// Number of slots of a collection of tensors; some may be empty.
    pub fn tensor_count(&self, collection: Collection) -> usize {
        self.count(collection)
    }

    /// Retains the tensor with this name: its memory stays until the returned value is dropped. Copies nothing.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, or the host lacks `sconce.retain/1`.
    #[track_caller]
    pub fn retain(&self, collection: Collection, name: &str) -> Result<RetainedTensor> {
        let index = self.index_of(collection, name)?;
        self.retain_slot(collection, index, false)?
            .ok_or_else(|| super::tensors::none(name))
    }

    /// Retains the tensor with this name for writing during this call.
    ///
    /// Legal where its in-place modification is, e.g. for [`Collection::Gradients`] where
    /// [`gradient_mut`](TaskView::gradient_mut) is.
    #[track_caller]
    pub fn retain_mut(&mut self, collection: Collection, name: &str) -> Result<RetainedTensor> {
        let index = self.index_of(collection, name)?;
        self.retain_slot(collection, index, true)?
            .ok_or_else(|| super::tensors::none(name))
    }

    /// Retains the tensor at an index below [`tensor_count`](TaskView::tensor_count); `None` if that slot is empty.
    #[track_caller]
    pub fn retain_at(
        &self,
        collection: Collection,
        index: usize,
    ) -> Result<Option<RetainedTensor>> {
        self.retain_slot(collection, index, false)
    }

    /// Retains the tensor at an index for writing during this call; `None` if that slot is empty.
    #[track_caller]
    pub fn retain_at_mut(
        &mut self,
        collection: Collection,
        index: usize,
    ) -> Result<Option<RetainedTensor>> {
        self.retain_slot(collection, index, true)
    }

    #[track_caller]
    fn retain_slot(
        &self,
        collection: Collection,
        index: usize,
        write: bool,
    ) -> Result<Option<RetainedTensor>> {
        let table = Self::table(self.tables.retain, RetainTable::ID)?;
        let mut abi = TensorAbi::EMPTY;
        let mut token = ptr::null_mut();
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view; tensor, token and error are borrowed for the call.
        let status = unsafe {
            (table.retain)(
                self.abi.context,
                collection as u32,
                index,
                u32::from(write),
                &raw mut abi,
                &raw mut token,
                &raw mut error,
            )
        };
        if status == Status::NOT_FOUND.0 {
            return Ok(None);
        }
        outcome(status, &error)?;
        // SAFETY: both are results of the call above, which succeeded.
        unsafe { RetainedTensor::new(abi, token, table) }.map(Some)
    }
}

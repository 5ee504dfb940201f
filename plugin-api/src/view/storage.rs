//! The tensors of a collection by their storage: memory that outlives the call, and addresses on a device.

use super::TaskView;
use crate::Result;
use crate::abi::Status;
use crate::error::outcome;
use crate::ext::{Collection, RetainedAbi};
use crate::tensor::RetainedTensor;

/// The tensors of a collection by their storage, for the runtimes of other languages and for code on a device; see
/// [`TaskView::storage`].
///
/// What may be changed at which mount point is checked by the host alone.
pub struct Storage<'view, 'task> {
    pub(super) task: &'view mut TaskView<'task>,
    pub(super) collection: Collection,
}

impl<'task> TaskView<'task> {
    /// The tensors of a collection by their storage: memory that outlives the call, for other languages' runtimes, and
    /// addresses on the device that computes. All other methods lend host memory, for the call.
    pub fn storage(&mut self, collection: Collection) -> Storage<'_, 'task> {
        Storage {
            task: self,
            collection,
        }
    }
}

impl Storage<'_, '_> {
    /// Number of slots; some may be empty.
    pub fn count(&self) -> usize {
        self.task.count(self.collection)
    }

    /// Retains the tensor with this name: its memory stays until the returned value is dropped. Copies nothing.
    ///
    /// # Errors
    ///
    /// If there is no such tensor, or the host lacks `sconce.retain/1`.
    #[track_caller]
    pub fn retain(&self, name: &str) -> Result<RetainedTensor> {
        let index = self.task.index_of(self.collection, name)?;
        self.retain_slot(index, false)?
            .ok_or_else(|| super::tensors::none(name))
    }

    /// Retains the tensor with this name for writing during this call.
    ///
    /// Legal where its in-place modification is.
    #[track_caller]
    pub fn retain_mut(&mut self, name: &str) -> Result<RetainedTensor> {
        let index = self.task.index_of(self.collection, name)?;
        self.retain_slot(index, true)?
            .ok_or_else(|| super::tensors::none(name))
    }

    /// Retains the tensor at an index below [`count`](Storage::count); `None` if that slot is empty.
    #[track_caller]
    pub fn retain_at(&self, index: usize) -> Result<Option<RetainedTensor>> {
        self.retain_slot(index, false)
    }

    /// Retains the tensor at an index for writing during this call; `None` if that slot is empty.
    #[track_caller]
    pub fn retain_at_mut(&mut self, index: usize) -> Result<Option<RetainedTensor>> {
        self.retain_slot(index, true)
    }

    #[track_caller]
    fn retain_slot(&self, index: usize, write: bool) -> Result<Option<RetainedTensor>> {
        let retain = self.task.host.retain()?;
        match retain.retain(self.collection as u32, index, write) {
            Err(refusal) if refusal.status == Status::NOT_FOUND => Ok(None),
            answer => {
                let RetainedAbi { tensor, token } = outcome(answer)?;
                // SAFETY: both are results of the call above, which succeeded.
                unsafe { RetainedTensor::new(tensor, token, retain.table()) }.map(Some)
            }
        }
    }
}

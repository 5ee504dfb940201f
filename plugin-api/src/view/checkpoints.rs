//! Requests that concern a checkpoint, and the extra entries of the one that is saved or was loaded.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::At;
use super::moment::{
    AddsToCheckpoint, BetweenIterations, ManagesCheckpoints, Moment, PublishesWeights,
    ReadsCheckpoint, RollsBack,
};
use crate::Result;
use crate::ext::{Collection, Keep, Request};
use crate::tensor::{Element, Tensor};

/// A checkpoint by its tag, to be saved, loaded, copied, deleted or exported; see [`At::checkpoint`].
///
/// Requests of one point are served in the order in which they were made.
#[must_use = "nothing is asked for until `save`, `load_parameters` or the like is called"]
pub struct CheckpointRequest<'view, 'task, M> {
    task: &'view mut At<'task, M>,
    tag: &'view str,
    set: Option<&'view str>,
    parameters_only: bool,
    in_background: bool,
}

impl<'task, M: Moment> At<'task, M> {
    /// The checkpoint with this tag, in `checkpoints/TAG` of the run's directory, for a request.
    ///
    /// ```
    /// use sconce_plugin_api::prelude::*;
    ///
    /// fn after_cycle(task: &mut AfterCycle<'_>) -> Result<()> {
    ///     task.checkpoint("last").save()?;
    ///     task.checkpoint("weights").parameters_only().in_background().save()?;
    ///     task.checkpoint("worst").delete()
    /// }
    /// ```
    ///
    /// A tag has 1 to 128 ASCII letters, digits, `-`, `_` and `.`, and begins with no dot. `latest` always refers to the
    /// checkpoint saved last and can't be saved under. Each request refuses another tag.
    pub fn checkpoint<'view>(
        &'view mut self,
        tag: &'view str,
    ) -> CheckpointRequest<'view, 'task, M> {
        CheckpointRequest {
            task: self,
            tag,
            set: None,
            parameters_only: false,
            in_background: false,
        }
    }
}

impl<'view, M: Moment> CheckpointRequest<'view, '_, M> {
    /// Saves parameters and buffers alone.
    ///
    /// That has a third of the size if the optimizer keeps two values per parameter. A run can neither resume from it nor roll
    /// back to it; only its parameters can be loaded ([`load_parameters`](CheckpointRequest::load_parameters), or `sconce
    /// eval` and `predict`). During a validation it is saved without delay.
    pub fn parameters_only(mut self) -> Self {
        self.parameters_only = true;
        self
    }

    /// Writes the checkpoint in the background.
    ///
    /// Training waits only for a copy in memory. One checkpoint is written at a time: the next save, requests
    /// that concern checkpoints, a rollback and the end of training wait for the previous one.
    /// `after_save_checkpoint` is called at such a point rather than whenever the disk happens to be done, so
    /// that runs stay reproducible to the bit. After a power failure before that point, the previous
    /// checkpoint is still there.
    pub fn in_background(mut self) -> Self {
        self.in_background = true;
        self
    }

    /// Takes the checkpoint's tensors `SET/PARAMETER` in place of its parameters (averaged weights, say): for
    /// [`load_parameters`](CheckpointRequest::load_parameters) and [`publish`](CheckpointRequest::publish).
    pub fn with_set(mut self, set: impl Into<Option<&'view str>>) -> Self {
        self.set = set.into();
        self
    }

    /// Saves a checkpoint once all hooks of this point have run.
    ///
    /// It contains parameters, optimizer, counters, metrics, and the states of all hooks. An existing
    /// checkpoint of that tag is replaced atomically. During a validation or the test, the save is delayed
    /// until that has finished. A failed save (e.g. a full disk) is a warning, and `after_save_checkpoint`
    /// gets the error.
    ///
    /// # Errors
    ///
    /// If the tag is not valid.
    #[track_caller]
    pub fn save(self) -> Result<()>
    where
        M: BetweenIterations,
    {
        let request = if self.in_background {
            Request::SaveInBackground
        } else {
            Request::SaveCheckpoint
        };
        self.task
            .request(request, f64::from(u8::from(self.parameters_only)), self.tag)
    }

    /// Loads parameters and buffers from the checkpoint once all hooks of this point have run.
    ///
    /// Optimizer, counters, metrics and hooks are unchanged; this is how a run ends with its best model.
    #[track_caller]
    pub fn load_parameters(self) -> Result<()>
    where
        M: BetweenIterations,
    {
        let text = match self.set {
            Some(set) => &format!("{}/{set}", self.tag),
            None => self.tag,
        };
        self.task.request(Request::LoadParameters, 0.0, text)
    }

    /// Rolls back to the checkpoint once all hooks of this point have run.
    ///
    /// Parameters, optimizer, learning rates, counters, metrics and the states of all hooks are restored,
    /// `after_load_checkpoint` is called, and training continues from there. The current epoch is abandoned
    /// without `after_epoch`; the epoch in which the checkpoint was saved begins with `before_epoch` and
    /// continues after the batches that were already done.
    ///
    /// A hook that counts its own rollbacks must keep that number out of its state.
    #[track_caller]
    pub fn roll_back(self) -> Result<()>
    where
        M: RollsBack,
    {
        self.task.request(Request::RollBack, 0.0, self.tag)
    }

    /// Deletes the checkpoint, if it exists, e.g. to keep only the last few.
    ///
    /// At `after_save_checkpoint` the newer one is complete: that is where to delete an older one.
    #[track_caller]
    pub fn delete(self) -> Result<()>
    where
        M: ManagesCheckpoints,
    {
        self.task.request(Request::DeleteCheckpoint, 0.0, self.tag)
    }

    /// Gives the checkpoint a second tag, atomically.
    ///
    /// The files are hard-linked instead of written again if the file system supports it. A disk that refuses it is a warning.
    #[track_caller]
    pub fn copy_to(self, tag: &str) -> Result<()>
    where
        M: ManagesCheckpoints,
    {
        self.task
            .request(Request::CopyCheckpoint, 0.0, &format!("{}/{tag}", self.tag))
    }

    /// Exports the checkpoint's parameters to `published/NAME-HASH.safetensors`, for distribution.
    ///
    /// The file contains the parameters under their plain names and nothing else. HASH is the first eight hex
    /// digits of its SHA-256. An existing file of that name with another hash is replaced.
    #[track_caller]
    pub fn publish(self, name: &str) -> Result<()>
    where
        M: PublishesWeights,
    {
        let text = match self.set {
            Some(set) => format!("{}/{name}/{set}", self.tag),
            None => format!("{}/{name}", self.tag),
        };
        self.task.request(Request::PublishWeights, 0.0, &text)
    }
}

impl<M: Moment> At<'_, M> {
    /// Adds an entry to the checkpoint that is about to be saved.
    ///
    /// It is meant for readers of the checkpoint; the hook's own state belongs in
    /// [`save_state`](crate::Hook::save_state).
    #[track_caller]
    pub fn add_to_checkpoint<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()>
    where
        M: AddsToCheckpoint,
    {
        self.set_value(Keep::Checkpoint, name, value)
    }

    /// Adds a tensor to the checkpoint that is about to be saved.
    #[track_caller]
    pub fn add_tensor_to_checkpoint<T: Element>(
        &mut self,
        name: &str,
        shape: &[usize],
        elements: &[T],
    ) -> Result<()>
    where
        M: AddsToCheckpoint,
    {
        self.set_tensor(Keep::Checkpoint, name, shape, elements)
    }

    /// An extra entry of the current checkpoint; `None` if there is none of that name.
    ///
    /// At `before_save_checkpoint` these are the entries added so far, at `after_load_checkpoint` those of
    /// the loaded checkpoint.
    #[track_caller]
    pub fn in_checkpoint<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>>
    where
        M: ReadsCheckpoint,
    {
        self.get_value(Keep::Checkpoint, name)
    }

    /// An extra tensor of the current checkpoint, as for [`in_checkpoint`](At::in_checkpoint).
    #[track_caller]
    pub fn tensor_in_checkpoint(&self, name: &str) -> Result<Tensor<'_>>
    where
        M: ReadsCheckpoint,
    {
        self.find(Collection::Checkpoint, name)
    }
}

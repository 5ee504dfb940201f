//! Checkpoints that are written while the training goes on.
//!
//! What goes into one is copied when it is asked for; a thread brings the copy to the disk. At most one
//! is under way: the next save waits for it, and so does whatever else concerns checkpoints, the
//! training's end and the run's. Only at these moments, which the run alone decides and not the disk's
//! speed, do hooks learn how it went: so a run stays the same to the bit.

use std::time::Instant;

use sconce_plugin_api::Point;

use super::manner::{Extent, Told};
use super::writing::{Work, Writing, Written};
use super::{RunError, Trainer};
use crate::checkpoint::{Error, Files, Store};
use crate::dispatch::HookFault;

impl Trainer<'_> {
    /// Begins to write files that have been copied since `start`.
    pub(super) fn begin_writing(
        &mut self,
        store: Store,
        hook: &str,
        (tag, extent): (&str, Extent),
        files: Result<Files, Error>,
        start: Instant,
    ) {
        let path = store.path_of(tag);
        let work = match files {
            Ok(files) => Work::begin(store, files, start),
            Err(error) => Work::Over(Written {
                result: Err(error),
                seconds: 0.0,
            }),
        };
        self.saver.writing = Some(Writing {
            tag: tag.to_owned(),
            hook: hook.to_owned(),
            path,
            extent,
            work,
        });
    }

    /// Waits for the checkpoint that is being written, if one is, and tells hooks how it went.
    pub(super) fn settle(&mut self) -> Result<(), RunError> {
        self.settle_by(|trainer, told| trainer.tell(Point::AfterSaveCheckpoint, told))
            .unwrap_or(Ok(()))
    }

    /// The same after a failure: every hook is told, whatever happens.
    pub(super) fn settle_after_failure(&mut self) -> Vec<HookFault> {
        self.settle_by(|trainer, told| trainer.tell_every(Point::AfterSaveCheckpoint, told))
            .unwrap_or_default()
    }

    fn settle_by<T>(&mut self, tell: impl FnOnce(&mut Self, &Told<'_>) -> T) -> Option<T> {
        let Writing {
            tag,
            hook,
            path,
            extent,
            work,
        } = self.saver.writing.take()?;
        let Written { result, seconds } = work.end(&tag);
        self.note(&result, &tag, &path, extent);
        let error = result.as_ref().err().map(ToString::to_string);
        let told = Told {
            error: error.as_deref().unwrap_or_default(),
            bytes: result.unwrap_or(0),
            seconds,
            ..Told::new(&path, &tag, &hook)
        };
        Some(tell(self, &told))
    }
}

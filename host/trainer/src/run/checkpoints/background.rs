//! Checkpoints written in the background while training continues.
//!
//! The contents are copied at the time of the request; a thread writes the copy to disk. At most one write is
//! in progress: the next save waits for it, as do all other operations on checkpoints, the end of training
//! and the end of the run. Hooks learn the result only at these points, which depend on the run alone and not
//! on the speed of the disk, so that the run stays bit-identical.

use std::time::Instant;

use sconce_plugin_api::Point;

use super::save_options::{CheckpointExtent, CheckpointResult, reference_text};
use super::writing::{WriteResult, WriteTask, Writing};
use crate::checkpoint::{CheckpointError, Files, Store};
use crate::dispatch::HookFault;
use crate::run::Trainer;
use crate::run::failure::Leave;

impl Trainer<'_> {
    /// Starts writing files that were copied from `start` on.
    pub(in crate::run) fn begin_writing(
        &mut self,
        store: Store,
        hook: &str,
        (tag, extent): (&str, CheckpointExtent),
        files: Result<Files, CheckpointError>,
        start: Instant,
    ) {
        let path = store.path_of(tag);
        let work = match files {
            Ok(files) => WriteTask::begin(store, files, start),
            Err(error) => WriteTask::Over(WriteResult {
                result: Err(error),
                seconds: 0.0,
            }),
        };
        self.saver.writing = Some(Writing {
            tag: tag.to_owned(),
            hook: hook.to_owned(),
            path,
            extent,
            at: self.reference_position(),
            work,
        });
    }

    /// Waits for the checkpoint being written, if any, and reports the result to hooks.
    pub(in crate::run) fn settle_writing(&mut self) -> Result<(), Leave> {
        self.settle_by(|trainer, reported| {
            trainer.announce_checkpoint(Point::AfterSaveCheckpoint, reported)
        })
        .unwrap_or(Ok(()))
    }

    /// Like [`settle_writing`](Self::settle_writing), but after a failure: every hook is reported, even if others fail.
    pub(in crate::run) fn settle_after_failure(&mut self) -> Vec<HookFault> {
        self.settle_by(|trainer, reported| {
            trainer.announce_checkpoint_to_all(Point::AfterSaveCheckpoint, reported)
        })
        .unwrap_or_default()
    }

    fn settle_by<T>(
        &mut self,
        report: impl FnOnce(&mut Self, &CheckpointResult<'_>) -> T,
    ) -> Option<T> {
        let writing = self.saver.writing.take()?;
        let hook = writing.hook.clone();
        // Waiting for the disk is time of the hook that has asked.
        Some(self.serving(&hook, |trainer| trainer.end_writing(writing, report)))
    }

    fn end_writing<T>(
        &mut self,
        writing: Writing,
        report: impl FnOnce(&mut Self, &CheckpointResult<'_>) -> T,
    ) -> T {
        let Writing {
            tag,
            hook,
            path,
            extent,
            at,
            work,
        } = writing;
        let WriteResult { result, seconds } = work.end(&tag);
        let result = result.map_err(|error| error.to_string());
        self.note(&result, &tag, &path, extent);
        let reference = reference_text(&result, &tag, at);
        let reported = CheckpointResult {
            seconds,
            ..CheckpointResult::new(&path, &tag, &hook).with(&result, &reference)
        };
        report(self, &reported)
    }
}

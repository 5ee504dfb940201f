//! A checkpoint being written by a thread.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::manner::CheckpointExtent;
use crate::checkpoint::{CheckpointError, Files, Saved, Store};

/// A checkpoint being written.
pub(super) struct Writing {
    pub(super) tag: String,
    pub(super) hook: String,
    pub(super) path: PathBuf,
    pub(super) extent: CheckpointExtent,
    /// Epochs and updates finished when its contents were copied.
    pub(super) at: (u64, u64),
    pub(super) work: WriteTask,
}

pub(super) enum WriteTask {
    UnderWay(JoinHandle<WriteResult>),
    /// Already finished: no thread could be started, or there was nothing to write.
    Over(WriteResult),
}

/// The result of writing a checkpoint.
pub(super) struct WriteResult {
    pub(super) result: Result<Saved, CheckpointError>,
    /// Duration, including the copying.
    pub(super) seconds: f64,
}

impl WriteResult {
    pub(super) fn of(store: &Store, files: &Files, start: Instant) -> WriteResult {
        WriteResult {
            result: store.write(files),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

impl WriteTask {
    pub(super) fn begin(store: Store, files: Files, start: Instant) -> WriteTask {
        let (hand_over, work) = mpsc::channel::<(Store, Files)>();
        let gone = |tag: String| WriteResult {
            result: Err(CheckpointError::Form {
                tag,
                reason: "the thread that writes it gave no result".to_owned(),
            }),
            seconds: 0.0,
        };
        let tag = files.tag.clone();
        let spawned = thread::Builder::new()
            .name("sconce-checkpoint".to_owned())
            .spawn(move || match work.recv() {
                Ok((store, files)) => WriteResult::of(&store, &files, start),
                Err(_) => gone(tag),
            });
        let Ok(thread) = spawned else {
            return WriteTask::Over(WriteResult::of(&store, &files, start));
        };
        match hand_over.send((store, files)) {
            Ok(()) => WriteTask::UnderWay(thread),
            Err(mpsc::SendError((store, files))) => {
                WriteTask::Over(WriteResult::of(&store, &files, start))
            }
        }
    }

    pub(super) fn end(self, tag: &str) -> WriteResult {
        match self {
            WriteTask::Over(written) => written,
            WriteTask::UnderWay(thread) => thread.join().unwrap_or_else(|_| WriteResult {
                result: Err(CheckpointError::Form {
                    tag: tag.to_owned(),
                    reason: "the thread that wrote it panicked".to_owned(),
                }),
                seconds: 0.0,
            }),
        }
    }
}

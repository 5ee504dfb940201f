//! A checkpoint being written by a thread.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::save_options::CheckpointExtent;
use crate::checkpoint::{CheckpointError, Files, Saved, Store};

/// A checkpoint being written.
pub(in crate::run) struct Writing {
    pub(in crate::run) tag: String,
    pub(in crate::run) hook: String,
    pub(in crate::run) path: PathBuf,
    pub(in crate::run) extent: CheckpointExtent,
    /// Epochs and updates finished when its contents were copied.
    pub(in crate::run) at: (u64, u64),
    pub(in crate::run) work: WriteTask,
}

pub(in crate::run) enum WriteTask {
    UnderWay(JoinHandle<WriteResult>),
    /// Already finished: no thread could be started, or there was nothing to write.
    Over(WriteResult),
}

/// The result of writing a checkpoint.
pub(in crate::run) struct WriteResult {
    pub(in crate::run) result: Result<Saved, CheckpointError>,
    /// Duration, including the copying.
    pub(in crate::run) seconds: f64,
}

impl WriteResult {
    pub(in crate::run) fn of(store: &Store, files: &Files, start: Instant) -> WriteResult {
        WriteResult {
            result: store.write(files),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

impl WriteTask {
    pub(in crate::run) fn begin(store: Store, files: Files, start: Instant) -> WriteTask {
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

    pub(in crate::run) fn end(self, tag: &str) -> WriteResult {
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

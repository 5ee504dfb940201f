//! A checkpoint being written by a thread.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::manner::Extent;
use crate::checkpoint::{Error, Files, Store};

/// A checkpoint being written.
pub(super) struct Writing {
    pub(super) tag: String,
    pub(super) hook: String,
    pub(super) path: PathBuf,
    pub(super) extent: Extent,
    pub(super) work: Work,
}

pub(super) enum Work {
    UnderWay(JoinHandle<Written>),
    /// Already finished: no thread could be started, or there was nothing to write.
    Over(Written),
}

/// The result of writing a checkpoint.
pub(super) struct Written {
    pub(super) result: Result<u64, Error>,
    /// Duration, including the copying.
    pub(super) seconds: f64,
}

impl Written {
    pub(super) fn of(store: &Store, files: &Files, start: Instant) -> Written {
        Written {
            result: store.write(files),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

impl Work {
    pub(super) fn begin(store: Store, files: Files, start: Instant) -> Work {
        let (hand_over, work) = mpsc::channel::<(Store, Files)>();
        let gone = |tag: String| Written {
            result: Err(Error::Form {
                tag,
                reason: "nobody has handed it over".to_owned(),
            }),
            seconds: 0.0,
        };
        let tag = files.tag.clone();
        let spawned = thread::Builder::new()
            .name("sconce-checkpoint".to_owned())
            .spawn(move || match work.recv() {
                Ok((store, files)) => Written::of(&store, &files, start),
                Err(_) => gone(tag),
            });
        let Ok(thread) = spawned else {
            return Work::Over(Written::of(&store, &files, start));
        };
        match hand_over.send((store, files)) {
            Ok(()) => Work::UnderWay(thread),
            Err(mpsc::SendError((store, files))) => Work::Over(Written::of(&store, &files, start)),
        }
    }

    pub(super) fn end(self, tag: &str) -> Written {
        match self {
            Work::Over(written) => written,
            Work::UnderWay(thread) => thread.join().unwrap_or_else(|_| Written {
                result: Err(Error::Form {
                    tag: tag.to_owned(),
                    reason: "the thread that wrote it panicked".to_owned(),
                }),
                seconds: 0.0,
            }),
        }
    }
}

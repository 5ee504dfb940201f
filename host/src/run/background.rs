//! Checkpoints that are written while the training goes on.
//!
//! What goes into one is copied when it is asked for; a thread brings the copy to the disk. At most one
//! is under way: the next save waits for it, and so does whatever else concerns checkpoints, the
//! training's end and the run's. Only at these moments, which the run alone decides and not the disk's
//! speed, do hooks learn how it went: so a run stays the same to the bit.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use sconce_plugin_api::Point;

use super::save::{Extent, Told};
use super::{RunError, Trainer};
use crate::checkpoint::{Error, Files, Store};
use crate::dispatch::HookFault;

/// A checkpoint that is being written.
pub(super) struct Writing {
    tag: String,
    hook: String,
    path: PathBuf,
    extent: Extent,
    work: Work,
}

enum Work {
    UnderWay(JoinHandle<Written>),
    /// Where the system gives no thread, or there was nothing to write.
    Over(Written),
}

/// How the writing went.
struct Written {
    result: Result<u64, Error>,
    /// From the copying on.
    seconds: f64,
}

impl Written {
    fn of(store: &Store, files: &Files, start: Instant) -> Written {
        Written {
            result: store.write(files),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

impl Work {
    fn begin(store: Store, files: Files, start: Instant) -> Work {
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

    fn end(self, tag: &str) -> Written {
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
        self.writing = Some(Writing {
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
        } = self.writing.take()?;
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

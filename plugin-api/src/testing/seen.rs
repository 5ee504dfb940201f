//! What a hook did in a scripted run.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::place::Place;
use crate::ext::{Collection, Keep, Level, Request};
use crate::{Phase, Point, Result, state};

/// A request of the hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Asked {
    /// Where it was asked for.
    pub at: Place,
    /// What.
    pub request: Request,
    /// The number that goes with it, as [`Request`] says: a learning rate, a factor; else 0.
    pub number: f64,
    /// The text that goes with it: a reason, a tag, a name; else empty.
    pub text: String,
    /// Why it was refused, as a host would; nothing where it was granted.
    pub refused: Option<String>,
}

/// A message of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Where; nothing for the hook's creation.
    pub at: Option<Place>,
    /// How loud.
    pub level: Level,
    /// What it said.
    pub text: String,
}

/// A metric that the hook published.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Where; its phase is the metric's.
    pub at: Place,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// A value or tensor that the hook published, or added to a checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Published {
    /// Where.
    pub at: Place,
    /// For how long, or that it is a checkpoint's extra entry.
    pub keep: Keep,
    /// Its name.
    pub name: String,
    /// The value, if it is one.
    pub json: Option<Value>,
    /// Shape and elements of the tensor, if it is one; none of another type than `f32`.
    pub tensor: Option<(Vec<usize>, Vec<f32>)>,
}

/// A tensor that the hook changed in place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Where.
    pub at: Place,
    /// What kind of tensor.
    pub collection: Collection,
    /// Its name.
    pub name: String,
    /// Its elements before; none of another type than `f32`.
    pub before: Vec<f32>,
    /// Its elements afterwards.
    pub after: Vec<f32>,
}

/// How a scripted run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// All epochs were trained.
    Completed,
    /// The hook asked for it.
    Stopped {
        /// Why.
        reason: String,
    },
    /// An error ended it: the script's or the hook's.
    Failed {
        /// The error.
        error: String,
    },
}

/// What a hook did in a scripted run, and what is left of it.
///
/// Lists are in the order of events. A run that was interrupted and resumed has both parts in them.
#[derive(Clone, Debug)]
pub struct Seen {
    pub(super) calls: Vec<Place>,
    pub(super) asked: Vec<Asked>,
    pub(super) messages: Vec<Message>,
    pub(super) metrics: Vec<Metric>,
    pub(super) published: Vec<Published>,
    pub(super) changes: Vec<Change>,
    pub(super) status_lines: Vec<String>,
    pub(super) learning_rates: Vec<f64>,
    pub(super) parameters: Vec<(String, Vec<f32>)>,
    pub(super) state: Vec<u8>,
    pub(super) end: End,
    pub(super) checkpoints: Vec<String>,
    pub(super) directory: Directory,
    /// How many calls came before the interruption, if there was one.
    pub(super) interrupted_behind: Option<usize>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            calls: Vec::new(),
            asked: Vec::new(),
            messages: Vec::new(),
            metrics: Vec::new(),
            published: Vec::new(),
            changes: Vec::new(),
            status_lines: Vec::new(),
            learning_rates: Vec::new(),
            parameters: Vec::new(),
            state: Vec::new(),
            end: End::Completed,
            checkpoints: Vec::new(),
            directory: Directory::default(),
            interrupted_behind: None,
        }
    }
}

impl Seen {
    /// Every call of the hook.
    pub fn calls(&self) -> &[Place] {
        &self.calls
    }

    /// How often it was called at a mount point, in all phases together.
    pub fn called(&self, point: Point) -> usize {
        self.calls
            .iter()
            .filter(|place| place.point == point)
            .count()
    }

    /// Every request, the refused ones too.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// The requests of one kind that were granted.
    pub fn asked_for(&self, request: Request) -> Vec<&Asked> {
        let is_it = |asked: &&Asked| asked.request == request && asked.refused.is_none();
        self.asked.iter().filter(is_it).collect()
    }

    /// The tags of the checkpoints that the hook asked for, in the order of asking.
    pub fn saved(&self) -> Vec<&str> {
        let is_save = |asked: &&Asked| {
            let saves = [Request::SaveCheckpoint, Request::SaveInBackground];
            saves.contains(&asked.request) && asked.refused.is_none()
        };
        let saves = self.asked.iter().filter(is_save);
        saves.map(|asked| asked.text.as_str()).collect()
    }

    /// The tags of the checkpoints that are there at the end, sorted.
    pub fn checkpoints(&self) -> &[String] {
        &self.checkpoints
    }

    /// Where the hook first asked for a stop, at once or behind the epoch.
    pub fn stopped_at(&self) -> Option<Place> {
        let is_stop = |asked: &&Asked| {
            let stops = [Request::Stop, Request::StopAfterEpoch];
            stops.contains(&asked.request) && asked.refused.is_none()
        };
        self.asked.iter().find(is_stop).map(|asked| asked.at)
    }

    /// How the run ended.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Why the hook stopped the run, if it did.
    pub fn stop_reason(&self) -> Option<&str> {
        match &self.end {
            End::Stopped { reason } => Some(reason),
            _ => None,
        }
    }

    /// Everything that it said.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The texts of its warnings.
    pub fn warnings(&self) -> Vec<&str> {
        let warnings = self
            .messages
            .iter()
            .filter(|message| message.level == Level::Warn);
        warnings.map(|message| message.text.as_str()).collect()
    }

    /// The lines that it showed below all messages, empty where it took one away.
    pub fn status_lines(&self) -> &[String] {
        &self.status_lines
    }

    /// Every metric that it published.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The values of one metric that it published in a phase, in the order of publishing.
    pub fn metric(&self, phase: Phase, name: &str) -> Vec<f64> {
        let is_it = |metric: &&Metric| metric.at.phase == phase && metric.name == name;
        let metrics = self.metrics.iter().filter(is_it);
        metrics.map(|metric| metric.value).collect()
    }

    /// Every value and tensor that it published or added to a checkpoint.
    pub fn published(&self) -> &[Published] {
        &self.published
    }

    /// The value that it published last under a name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let mut published = self.published.iter().rev();
        published.find(|one| one.name == name)?.json.as_ref()
    }

    /// Every tensor that it changed in place.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The learning rate (of the first group) at each step of the optimizer.
    pub fn learning_rates(&self) -> &[f64] {
        &self.learning_rates
    }

    /// A parameter's elements at the end; none where there is no such parameter.
    pub fn parameter(&self, name: &str) -> &[f32] {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        found.map_or(&[], |(_, elements)| elements)
    }

    /// The hook's state at the end, behind `after_run`.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// The hook's state at the end as [`state::from_bytes`] reads it.
    ///
    /// # Errors
    ///
    /// Where it is of another type.
    pub fn state_as<T: DeserializeOwned>(&self) -> Result<T> {
        state::from_bytes(&self.state)
    }

    /// The run's directory. It is deleted with the last copy of this.
    pub fn run_directory(&self) -> &Path {
        self.directory.path()
    }

    /// The text of a file in the run's directory.
    ///
    /// # Errors
    ///
    /// Where it can't be read.
    pub fn file(&self, name: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.directory.path().join(name))
    }
}

/// The run's directory, deleted with its last user where the kit has made it.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(std::sync::Arc<Owned>);

#[derive(Debug, Default)]
struct Owned {
    path: PathBuf,
    is_ours: bool,
}

impl Directory {
    /// A directory of its own below the system's for temporary files.
    pub(super) fn new() -> std::io::Result<Directory> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("sconce-scripted-{process}-{number}"));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    return Ok(Directory(std::sync::Arc::new(Owned {
                        path,
                        is_ours: true,
                    })));
                }
                // Of an earlier process of that number.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The caller's own, which stays.
    pub(super) fn of_caller(path: &Path) -> Directory {
        Directory(std::sync::Arc::new(Owned {
            path: path.to_owned(),
            is_ours: false,
        }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.is_ours {
            // A leftover in the system's temporary directory is no failure of a test.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

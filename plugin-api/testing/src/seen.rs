//! The record of what a hook did in a scripted run.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::place::CallPosition;
use sconce_plugin_api::ext::{Collection, Keep, Level, Request};
use sconce_plugin_api::{Phase, Point, Result, state};

/// A request made by the hook.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SeenRequest {
    /// The call in which it was made.
    pub at: CallPosition,
    /// The kind of request.
    pub request: Request,
    /// Its numeric argument as documented at [`Request`], such as a learning rate or a factor; else 0.
    pub number: f64,
    /// Its text argument, such as a reason, tag or name; else empty.
    pub text: String,
    /// Why it was rejected, as by a host; `None` if it was accepted.
    pub refused: Option<String>,
}

/// A message logged by the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The call in which it was logged; `None` at the hook's creation.
    pub at: Option<CallPosition>,
    /// Severity of the message.
    pub level: Level,
    /// The text of the message.
    pub text: String,
}

/// A metric that the hook published.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SeenMetric {
    /// The call in which it was published; its phase is that of the metric.
    pub at: CallPosition,
    /// Name of the metric.
    pub name: String,
    /// Value of the metric.
    pub value: f64,
}

/// A value or tensor that the hook published, or added to a checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Published {
    /// The call in which it was published.
    pub at: CallPosition,
    /// How long it is kept, or that it is an extra entry of a checkpoint.
    pub keep: Keep,
    /// Name under which it was published.
    pub name: String,
    /// The value; `None` for a tensor.
    pub json: Option<Value>,
    /// Shape and elements of the tensor; `None` for a value. Elements of other types than `f32` are omitted.
    pub tensor: Option<(Vec<usize>, Vec<f32>)>,
}

/// A tensor that the hook modified in place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The call in which it was modified.
    pub at: CallPosition,
    /// The collection that the tensor belongs to.
    pub collection: Collection,
    /// Name of the tensor.
    pub name: String,
    /// Elements before the call; empty if they are not `f32`.
    pub before: Vec<f32>,
    /// Elements after the call.
    pub after: Vec<f32>,
}

/// A loss that the hook gave in the place of the task's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SeenLoss {
    /// The call in which it was given.
    pub at: CallPosition,
    /// Its value.
    pub value: f64,
    /// Its gradient with respect to the outputs, row by row.
    pub gradient: Vec<f32>,
}

/// How a scripted run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// All epochs were trained.
    Completed,
    /// The hook requested a stop.
    Stopped {
        /// The reason given with the request.
        reason: String,
    },
    /// The run failed, by the script or by an error of the hook.
    Failed {
        /// The error message.
        error: String,
    },
}

/// What a hook did in a scripted run, and the state at its end.
///
/// Lists are in chronological order. For a run that was interrupted and resumed, they cover both parts.
#[derive(Clone, Debug)]
pub struct Seen {
    pub(super) calls: Vec<CallPosition>,
    pub(super) asked: Vec<SeenRequest>,
    pub(super) declared_metrics: Vec<String>,
    pub(super) declared_asks: Option<Vec<String>>,
    pub(super) declared_reads: Option<Vec<String>>,
    pub(super) messages: Vec<Message>,
    pub(super) metrics: Vec<SeenMetric>,
    pub(super) published: Vec<Published>,
    pub(super) changes: Vec<Change>,
    pub(super) losses: Vec<SeenLoss>,
    pub(super) status_lines: Vec<String>,
    pub(super) learning_rates: Vec<f64>,
    pub(super) parameters: Vec<(String, Vec<f32>)>,
    pub(super) state: Vec<u8>,
    pub(super) end: RunEnd,
    pub(super) checkpoints: Vec<String>,
    pub(super) directory: Directory,
    /// Number of calls before the interruption, if there was one.
    pub(super) calls_before_interruption: Option<usize>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            calls: Vec::new(),
            asked: Vec::new(),
            declared_metrics: Vec::new(),
            declared_asks: None,
            declared_reads: None,
            messages: Vec::new(),
            metrics: Vec::new(),
            published: Vec::new(),
            changes: Vec::new(),
            losses: Vec::new(),
            status_lines: Vec::new(),
            learning_rates: Vec::new(),
            parameters: Vec::new(),
            state: Vec::new(),
            end: RunEnd::Completed,
            checkpoints: Vec::new(),
            directory: Directory::default(),
            calls_before_interruption: None,
        }
    }
}

impl Seen {
    /// How many requests, metrics, published values and changes there are so far.
    pub(super) fn marks(&self) -> [usize; 4] {
        [
            self.asked.len(),
            self.metrics.len(),
            self.published.len(),
            self.changes.len(),
        ]
    }

    /// Forgets those that came after the marks.
    pub(super) fn cut(&mut self, [asked, metrics, published, changes]: [usize; 4]) {
        self.asked.truncate(asked);
        self.metrics.truncate(metrics);
        self.published.truncate(published);
        self.changes.truncate(changes);
    }

    /// All calls of the hook.
    pub fn calls(&self) -> &[CallPosition] {
        &self.calls
    }

    /// Number of calls at a mount point, in all phases together.
    pub fn called(&self, point: Point) -> usize {
        self.calls
            .iter()
            .filter(|place| place.point == point)
            .count()
    }

    /// All requests, including rejected ones.
    pub fn asked(&self) -> &[SeenRequest] {
        &self.asked
    }

    /// The accepted requests of one kind.
    pub fn asked_for(&self, request: Request) -> Vec<&SeenRequest> {
        let is_it = |asked: &&SeenRequest| asked.request == request && asked.refused.is_none();
        self.asked.iter().filter(is_it).collect()
    }

    /// The metrics that the hook declared at its creation, in that order: after a resume those of both instances.
    pub fn declared_metrics(&self) -> &[String] {
        &self.declared_metrics
    }

    /// The requests that the hook declared at its creation to be all that it makes ([`Setup::asks`]); `None` if it did not.
    ///
    /// [`Setup::asks`]: sconce_plugin_api::Setup::asks
    pub fn declared_asks(&self) -> Option<&[String]> {
        self.declared_asks.as_deref()
    }

    /// What the hook declared at its creation to read of the loop ([`Setup::reads`]); `None` if it did not.
    ///
    /// [`Setup::reads`]: sconce_plugin_api::Setup::reads
    pub fn declared_reads(&self) -> Option<&[String]> {
        self.declared_reads.as_deref()
    }

    /// Tags of the checkpoints that the hook requested, in the order of the requests.
    pub fn saved(&self) -> Vec<&str> {
        let is_save = |asked: &&SeenRequest| {
            let saves = [Request::SaveCheckpoint, Request::SaveInBackground];
            saves.contains(&asked.request) && asked.refused.is_none()
        };
        let saves = self.asked.iter().filter(is_save);
        saves.map(|asked| asked.text.as_str()).collect()
    }

    /// Tags of the checkpoints that exist at the end, sorted.
    pub fn checkpoints(&self) -> &[String] {
        &self.checkpoints
    }

    /// The call in which the hook first requested a stop, immediate or after the epoch.
    pub fn stopped_at(&self) -> Option<CallPosition> {
        let is_stop = |asked: &&SeenRequest| {
            let stops = [Request::Stop, Request::StopAfterEpoch];
            stops.contains(&asked.request) && asked.refused.is_none()
        };
        self.asked.iter().find(is_stop).map(|asked| asked.at)
    }

    /// How the run ended.
    pub fn end(&self) -> &RunEnd {
        &self.end
    }

    /// The reason for which the hook stopped the run, if it did.
    pub fn stop_reason(&self) -> Option<&str> {
        match &self.end {
            RunEnd::Stopped { reason } => Some(reason),
            _ => None,
        }
    }

    /// All messages of the hook.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Texts of the hook's warnings.
    pub fn warnings(&self) -> Vec<&str> {
        let warnings = self
            .messages
            .iter()
            .filter(|message| message.level == Level::Warn);
        warnings.map(|message| message.text.as_str()).collect()
    }

    /// Status lines that the hook set; empty texts where it removed one.
    pub fn status_lines(&self) -> &[String] {
        &self.status_lines
    }

    /// All metrics that the hook published.
    pub fn metrics(&self) -> &[SeenMetric] {
        &self.metrics
    }

    /// The values that the hook published for one metric of a phase, in order.
    pub fn metric(&self, phase: Phase, name: &str) -> Vec<f64> {
        let is_it = |metric: &&SeenMetric| metric.at.phase == phase && metric.name == name;
        let metrics = self.metrics.iter().filter(is_it);
        metrics.map(|metric| metric.value).collect()
    }

    /// All values and tensors that the hook published or added to a checkpoint.
    pub fn published(&self) -> &[Published] {
        &self.published
    }

    /// The last value that the hook published under a name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let mut published = self.published.iter().rev();
        published.find(|one| one.name == name)?.json.as_ref()
    }

    /// All tensors that the hook modified in place.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Losses that the hook gave.
    pub fn losses(&self) -> &[SeenLoss] {
        &self.losses
    }

    /// The learning rate of the first group at each optimizer step.
    pub fn learning_rates(&self) -> &[f64] {
        &self.learning_rates
    }

    /// Elements of a parameter at the end; empty if there is no such parameter.
    pub fn parameter(&self, name: &str) -> &[f32] {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        found.map_or(&[], |(_, elements)| elements)
    }

    /// The hook's state at the end, after `after_run`.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// The hook's state at the end, deserialised by [`state::from_bytes`].
    ///
    /// # Errors
    ///
    /// If it cannot be deserialised as a `T`.
    pub fn state_as<T: DeserializeOwned>(&self) -> Result<T> {
        state::from_bytes(&self.state)
    }

    /// The run's directory. A temporary one is deleted with the last copy of this value.
    pub fn run_directory(&self) -> &Path {
        self.directory.path()
    }

    /// Reads a file in the run's directory.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn file(&self, name: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.directory.path().join(name))
    }
}

/// The run's directory; a temporary one is deleted with its last owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(std::sync::Arc<Owned>);

#[derive(Debug, Default)]
struct Owned {
    path: PathBuf,
    is_ours: bool,
}

impl Directory {
    /// Creates a new directory in the system's directory for temporary files.
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
                // Left by an earlier process with the same ID.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A directory of the caller, which is not deleted.
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
            // A leftover in the system's temporary directory is not a reason for a test to fail.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

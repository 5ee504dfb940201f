//! The event files of a run, and how they continue after a resume.
//!
//! A run resumed from a checkpoint starts another file. The previous one is truncated to the state
//! of the checkpoint, which a running reader need not notice, and the new one begins by telling
//! such a reader which steps to discard.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prost::Message;
use sconce_plugin_api::prelude::*;

use super::event::{Event, SessionLog, Status, Summary, Value, What};
use super::record;

const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".sconce";

/// Writes events to numbered files.
pub(crate) struct EventFiles {
    directory: PathBuf,
    /// Numbers of the run's files, from 1; the last one is `log`.
    numbers: Vec<u64>,
    log: Option<LogFile>,
    /// The number of the next file.
    next: u64,
    /// The first step of a resumed run.
    from: u64,
    /// Events not yet written.
    waiting: Vec<u8>,
    flush_every: Duration,
    flushed: Instant,
}

/// State saved in a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    numbers: Vec<u64>,
    last: LogFileState,
}

impl EventFiles {
    /// Creates files in a directory; events are buffered for `flush_every`.
    pub(crate) fn new(directory: PathBuf, flush_every: Duration) -> Self {
        EventFiles {
            directory,
            numbers: Vec::new(),
            log: None,
            next: 1,
            from: 0,
            waiting: Vec::new(),
            flush_every,
            flushed: Instant::now(),
        }
    }

    /// Whether the run has written nothing yet.
    pub(crate) fn is_new(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Adds the values of a step.
    pub(crate) fn add(&mut self, step: u64, values: Vec<Value>) -> Result<()> {
        if self.log.is_none() {
            self.begin()?;
        }
        self.event(step, What::Summary(Summary { values }));
        if self.flushed.elapsed() >= self.flush_every {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the waiting events through to the system.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.flushed = Instant::now();
        if let Some(log) = self.log.as_mut().filter(|_| !self.waiting.is_empty()) {
            log.write(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Sets the first step after a resume or rollback: readers discard this step and later ones.
    pub(crate) fn go_on_from(&mut self, step: u64) {
        self.from = step;
    }

    /// Begins the next file, removing the files of an earlier run in this directory.
    fn begin(&mut self) -> Result<()> {
        if self.is_new() {
            for number in self.found() {
                self.remove(number)?;
            }
        }
        let log = LogFile::new(self.path(self.next)?);
        let is_resumed = !self.is_new();
        self.numbers.push(self.next);
        self.next += 1;
        self.log = Some(log);
        self.event(0, What::FileVersion("brain.Event:2".to_owned()));
        if is_resumed {
            let status = Status::Start.into();
            self.event(self.from, What::SessionLog(SessionLog { status }));
        }
        Ok(())
    }

    fn event(&mut self, step: u64, what: What) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let event = Event {
            wall_time: now.unwrap_or_default().as_secs_f64(),
            step: i64::try_from(step).unwrap_or(i64::MAX),
            what: Some(what),
        };
        record::add(&mut self.waiting, &event.encode_to_vec());
    }

    /// Numbers of the existing event files.
    fn found(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let number = |name: &str| {
            let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
            digits.parse().ok()
        };
        let mut numbers: Vec<u64> = entries
            .filter_map(|entry| number(entry.file_name().to_str()?))
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn path(&self, number: u64) -> Result<PathBuf> {
        // Readers process the files in order of their names.
        path_inside(&self.directory, format!("{PREFIX}{number:010}{SUFFIX}"))
    }

    fn remove(&self, number: u64) -> Result<()> {
        let path = self.path(number)?;
        fs::remove_file(&path).with_context(|| format!("can't remove `{}`", path.display()))
    }
}

impl state::StateField for EventFiles {
    type Saved = Saved;

    fn save(&mut self) -> Result<impl Serialize> {
        self.flush()?;
        let last = self.log.as_mut().map(LogFile::save).transpose()?;
        Ok(Saved {
            numbers: self.numbers.clone(),
            last: last.unwrap_or_default(),
        })
    }

    fn check(&self, saved: &Saved) -> Result<()> {
        for pair in saved.numbers.windows(2) {
            if pair.first() >= pair.last() {
                bail!("the state's event files are not in order: {pair:?}");
            }
        }
        state::check_count("files.numbers", saved.numbers.last().copied().unwrap_or(0))
    }

    /// Returns to the state of a checkpoint: everything written after it is removed.
    fn restore(&mut self, saved: Saved) -> Result<()> {
        let last = saved.numbers.last().map(|last| self.path(*last));
        let last = last.transpose()?;
        self.waiting.clear();
        self.log = None;
        let found = self.found();
        self.next = found
            .iter()
            .chain(&saved.numbers)
            .max()
            .map_or(1, |n| n + 1);
        for number in found.iter().filter(|n| !saved.numbers.contains(n)) {
            self.remove(*number)?;
        }
        self.numbers = saved.numbers;
        if let Some(last) = last {
            LogFile::new(last).restore(&saved.last)?;
        }
        Ok(())
    }
}

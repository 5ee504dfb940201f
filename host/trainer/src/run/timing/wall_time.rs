//! Where a run's time goes, from the start of the process to its last file: every moment belongs to one entry.
//!
//! A *span* is work for one entry, such as the request of a hook; spans nest, and time within an inner span is the inner
//! one's alone. What no entry claims is `other`, so that the entries always add up to the whole.
//!
//! Entries: the start, by its steps; passes over data ([`Profile`](crate::run::Profile) has their parts); hooks, by their calls
//! outside of passes and by the requests that the host serves for them (saving, deleting, loading, validating); what the
//! host saves on its own; pauses; and the end.

use std::time::{Duration, Instant};

use sconce_plugin_api::Phase;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::dispatch::{HookTimes, LoadedHook};

/// Steps before a training, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StartTimes {
    /// Reading and checking the manifest.
    pub manifest: f64,
    /// Finding, trying and opening plugins.
    pub plugins: f64,
    /// Waiting for the data once the plugins are open: both are read at the same time.
    pub data: f64,
    /// Building the model, the optimizer, and their first weights.
    pub model: f64,
    /// Creating the hooks.
    pub hooks: f64,
}

impl StartTimes {
    fn sum(&self) -> f64 {
        self.manifest + self.plugins + self.data + self.model + self.hooks
    }
}

/// Time of a hook outside of passes, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookWork {
    /// Name of the hook; empty for what the host does on its own, such as saving when a signal ends the run.
    pub name: String,
    /// Number of its calls outside of passes.
    pub calls: u64,
    /// Total time of these calls.
    pub seconds: f64,
    /// Number of its requests that were served, in passes too.
    pub requests: u64,
    /// Time that took, apart from the calls of hooks and passes in it.
    pub serving: f64,
}

/// Steps after a training, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EndTimes {
    /// Dropping the hooks.
    pub hooks: f64,
    /// Writing the trained weights and what belongs to them.
    pub weights: f64,
}

/// Where a run's time went.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimes {
    begin: Instant,
    /// From the start of the process to the training.
    pub before: f64,
    /// The steps of that.
    pub start: StartTimes,
    /// Passes over the data of each phase.
    pub passes: Vec<(Phase, f64)>,
    /// Hooks that took time outside of passes, in the order of their first calls or requests.
    pub hooks: Vec<HookWork>,
    /// Pauses.
    pub paused: f64,
    /// After the training.
    pub end: EndTimes,
}

impl RunTimes {
    /// Sums and entries as they are now, in seconds: those of `run.json`. What is left is `other`.
    pub fn to_json(&self) -> Value {
        let seconds = self.begin.elapsed().as_secs_f64();
        let mut start = json!(self.start);
        start["other"] = json!((self.before - self.start.sum()).max(0.0));
        let passes = self.passes.iter();
        let passes: Map<String, Value> = passes
            .map(|(phase, seconds)| (phase.name().to_owned(), json!(seconds)))
            .collect();
        json!({
            "seconds": seconds,
            "start": start,
            "passes": passes,
            "hooks": self.hooks,
            "paused": self.paused,
            "end": self.end,
            "other": self.other(seconds),
        })
    }

    /// Seconds since the start of the process.
    pub fn elapsed_seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// What no entry of the first `seconds` claims.
    pub fn other(&self, seconds: f64) -> f64 {
        let passes: f64 = self.passes.iter().map(|(_, seconds)| seconds).sum();
        let hooks: f64 = (self.hooks.iter())
            .map(|hook| hook.seconds + hook.serving)
            .sum();
        let end = self.end.hooks + self.end.weights;
        let claimed = self.before.max(self.start.sum()) + passes + hooks + self.paused + end;
        (seconds - claimed).max(0.0)
    }

    /// Measures writing the trained weights.
    pub fn write_weights<T>(&mut self, write: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let written = write();
        self.end.weights += begin.elapsed().as_secs_f64();
        written
    }
}

/// Claims of entries on a run's time while it trains.
#[derive(Debug)]
pub(in crate::run) struct WallTime {
    /// Start of the process, or of the run.
    origin: Instant,
    begin: Instant,
    start: StartTimes,
    /// Time that belongs to an entry.
    claimed: Duration,
    hooks: Vec<HookWork>,
    /// Serving the requests of each hook since the last profile, in seconds, by name.
    served: Vec<(String, f64)>,
    paused: Duration,
}

/// Work in progress for one entry.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Span {
    pub(in crate::run) begin: Instant,
    claimed: Duration,
}

impl WallTime {
    /// A run that begins now.
    pub(in crate::run) fn begin() -> WallTime {
        let now = Instant::now();
        WallTime {
            origin: now,
            begin: now,
            start: StartTimes::default(),
            claimed: Duration::ZERO,
            hooks: Vec::new(),
            served: Vec::new(),
            paused: Duration::ZERO,
        }
    }

    /// Counts the time since `origin`, of which `start` is known.
    pub(in crate::run) fn count_start(&mut self, origin: Instant, start: StartTimes) {
        self.origin = origin;
        self.start = start;
    }

    /// Counts the time since `origin` only.
    pub(in crate::run) fn set_origin(&mut self, origin: Instant) {
        self.origin = origin;
    }

    /// Begins the training: until now is the start.
    pub(in crate::run) fn begin_run(&mut self) {
        self.begin = Instant::now();
    }

    /// Begins a span.
    pub(in crate::run) fn open(&self) -> Span {
        Span {
            begin: Instant::now(),
            claimed: self.claimed,
        }
    }

    /// Time in a span that no entry has claimed.
    fn unclaimed(&self, span: Span) -> Duration {
        let inner = self.claimed.saturating_sub(span.claimed);
        span.begin.elapsed().saturating_sub(inner)
    }

    /// Ends a pass, whose own time this was.
    pub(in crate::run) fn claim_pass(&mut self, seconds: f64) {
        self.claimed += Duration::try_from_secs_f64(seconds).unwrap_or_default();
    }

    /// Ends a span that served a request of `hook`.
    pub(in crate::run) fn claim_request(&mut self, span: Span, hook: &str) {
        let own = self.unclaimed(span);
        self.claimed += own;
        let seconds = own.as_secs_f64();
        let work = self.work_of(hook);
        work.requests += 1;
        work.serving += seconds;
        match self.served.iter_mut().find(|(name, _)| name == hook) {
            Some((_, served)) => *served += seconds,
            None => self.served.push((hook.to_owned(), seconds)),
        }
    }

    /// Claims calls of hooks outside of passes within a span, or since the run began. Times of many short calls are
    /// estimates: together they never exceed the time that there was.
    pub(in crate::run) fn claim_calls(
        &mut self,
        span: Option<Span>,
        hooks: &[LoadedHook],
        times: &[HookTimes],
    ) {
        let whole = Span {
            begin: self.begin,
            claimed: Duration::ZERO,
        };
        let room = self.unclaimed(span.unwrap_or(whole)).as_secs_f64();
        let sum: f64 = times.iter().map(HookTimes::seconds).sum();
        let scale = scale(sum, room);
        for (hook, times) in hooks.iter().zip(times).filter(|(_, times)| times.calls > 0) {
            let seconds = times.seconds() * scale;
            self.claimed += Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let work = self.work_of(&hook.spec.name);
            work.calls += times.calls;
            work.seconds += seconds;
        }
    }

    /// Claims a pause.
    pub(in crate::run) fn claim_pause(&mut self, time: Duration) {
        self.claimed += time;
        self.paused += time;
    }

    /// Seconds spent on requests since the last call, by the hooks that made them.
    pub(in crate::run) fn take_served(&mut self) -> Vec<(String, f64)> {
        std::mem::take(&mut self.served)
    }

    /// The result so far; `passes` are the sums of passes by phase.
    pub(in crate::run) fn times(&self, passes: Vec<(Phase, f64)>) -> RunTimes {
        RunTimes {
            begin: self.origin,
            before: self.begin.duration_since(self.origin).as_secs_f64(),
            start: self.start,
            passes,
            hooks: self.hooks.clone(),
            paused: self.paused.as_secs_f64(),
            end: EndTimes::default(),
        }
    }

    fn work_of(&mut self, hook: &str) -> &mut HookWork {
        let known = self.hooks.iter().position(|work| work.name == hook);
        let index = known.unwrap_or_else(|| {
            self.hooks.push(HookWork {
                name: hook.to_owned(),
                ..HookWork::default()
            });
            self.hooks.len() - 1
        });
        &mut self.hooks[index]
    }
}

/// Factor that makes estimates fit into the time that there was.
pub(in crate::run) fn scale(estimated: f64, room: f64) -> f64 {
    if estimated > room {
        room.max(0.0) / estimated
    } else {
        1.0
    }
}

//! Spans of time, as a Chrome trace: the "JSON object format" of
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>, which Perfetto
//! and `chrome://tracing` open.

use std::time::Instant;

use serde_json::{Map, Value, json};

/// What did the work of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Track {
    /// The thread that trains; on a GPU it queues the work.
    Training = 1,
    /// The GPU's computations.
    Gpu = 2,
    /// Copies to the GPU.
    Copies = 3,
}

impl Track {
    const ALL: [Track; 3] = [Track::Training, Track::Gpu, Track::Copies];

    fn name(self) -> &'static str {
        match self {
            Track::Training => "training",
            Track::Gpu => "GPU",
            Track::Copies => "GPU, copies",
        }
    }
}

/// A span of time, or a counter's value at a point in time.
#[derive(Clone, Debug)]
struct Event {
    name: String,
    category: &'static str,
    start: Instant,
    /// `None` for a counter.
    end: Option<Instant>,
    track: Track,
    arguments: Map<String, Value>,
}

/// The events of a file.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The instant that is written as time 0.
    origin: Instant,
    events: Vec<Event>,
}

impl Timeline {
    pub(crate) fn new(origin: Instant) -> Timeline {
        Timeline {
            origin,
            events: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Adds a span. The spans of one timeline nest: any two are disjoint, or one contains the
    /// other.
    pub(crate) fn span(
        &mut self,
        name: impl Into<String>,
        category: &'static str,
        (start, end): (Instant, Instant),
        arguments: Map<String, Value>,
    ) {
        self.events.push(Event {
            name: name.into(),
            category,
            start,
            end: Some(end),
            track: Track::Training,
            arguments,
        });
    }

    /// Adds work of the GPU, whose spans need not nest with those of the training.
    pub(crate) fn gpu_span(&mut self, name: &str, track: Track, (start, end): (Instant, Instant)) {
        self.events.push(Event {
            name: name.to_owned(),
            category: "gpu",
            start,
            end: Some(end),
            track,
            arguments: Map::new(),
        });
    }

    /// Adds a counter's value at a point in time.
    pub(crate) fn counter(&mut self, name: &str, at: Instant, value: f64) {
        let mut arguments = Map::new();
        arguments.insert(name.to_owned(), json!(value));
        self.events.push(Event {
            name: name.to_owned(),
            category: "counter",
            start: at,
            end: None,
            track: Track::Training,
            arguments,
        });
    }

    /// Start of the first module inside this one that has run since event `from`.
    pub(crate) fn inside(&self, module: &str, from: usize) -> Option<Instant> {
        let is_inside = |event: &&Event| {
            let rest = event.name.strip_prefix(module);
            event.category == "module" && rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let events = self.events.get(from..)?.iter();
        events.filter(is_inside).map(|event| event.start).min()
    }

    /// End of the last module that has run since event `from`.
    pub(crate) fn module_end(&self, from: usize) -> Option<Instant> {
        let events = self.events.get(from..)?.iter();
        let last = events.rev().find(|event| event.category == "module");
        last.and_then(|event| event.end)
    }

    /// Takes the file's text, leaving the timeline empty: events are ordered by start, outer spans
    /// before inner ones.
    pub(crate) fn take(&mut self, process: &str) -> String {
        // Sorted by end too, so that a span comes before the inner ones that start with it.
        self.events
            .sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        let id = std::process::id();
        let named = |what: &str, name: &str, track: u32| json!({"name": what, "ph": "M", "pid": id, "tid": track, "args": {"name": name}});
        let mut events = vec![named("process_name", process, 1)];
        let has = |track: &Track| self.events.iter().any(|event| event.track == *track);
        let tracks = Track::ALL.into_iter().filter(has);
        events.extend(tracks.map(|track| named("thread_name", track.name(), track as u32)));
        for event in self.events.drain(..) {
            let start = microseconds(event.start, self.origin);
            let mut line = json!({"name": event.name, "cat": event.category, "pid": id, "tid": event.track as u32,
                "ts": start, "args": event.arguments});
            if let Some(object) = line.as_object_mut() {
                let kind = if event.end.is_some() { "X" } else { "C" };
                object.insert("ph".to_owned(), json!(kind));
                if let Some(end) = event.end {
                    // The difference of the written values, so that nested spans end within each
                    // other to the last digit.
                    let end = microseconds(end, self.origin);
                    object.insert("dur".to_owned(), json!(end - start));
                }
            }
            events.push(line);
        }
        format!(
            "{}\n",
            json!({"displayTimeUnit": "ms", "traceEvents": events})
        )
    }
}

/// Microseconds, rounded down to multiples of 1/1024: sums and differences of such numbers are
/// exact.
fn microseconds(at: Instant, origin: Instant) -> f64 {
    let seconds = at.saturating_duration_since(origin).as_secs_f64();
    (seconds * 1e6 * 1024.0).floor() / 1024.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn outer_spans_come_first_and_end_last() {
        let origin = Instant::now();
        let at = |microseconds| origin + Duration::from_micros(microseconds);
        let mut timeline = Timeline::new(origin);
        timeline.span("b.a", "module", (at(10), at(20)), Map::new());
        timeline.span("b", "module", (at(10), at(30)), Map::new());
        timeline.span("c", "module", (at(30), at(31)), Map::new());
        assert_eq!(timeline.inside("b", 0), Some(at(10)));
        assert_eq!(timeline.inside("b", 1), None);
        timeline.counter("memory", at(30), 1.5);
        let text = timeline.take("run");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        let events = file["traceEvents"].as_array().expect("events");
        let names: Vec<_> = events
            .iter()
            .filter_map(|event| event["name"].as_str())
            .collect();
        assert_eq!(
            names,
            ["process_name", "thread_name", "b", "b.a", "c", "memory"]
        );
        assert!(
            events[2]["dur"]
                .as_f64()
                .is_some_and(|d| (d - 20.0).abs() < 0.01)
        );
        assert!(timeline.is_empty());
    }
}

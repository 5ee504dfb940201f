//! The run's progress, as events.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sconce_plugin_api::Phase;

use super::{Events, HistoryRow};
use crate::metric_board::PhaseMetrics;
use crate::run::{Now, Observer, Profile};

/// How often the position is noted: more often than anybody looks.
const EVERY: Duration = Duration::from_millis(50);

/// Observer that keeps the position and the results of passes for the thread that waits.
pub(super) struct EventObserver<'a> {
    events: &'a Events,
    noted: Cell<Option<Instant>>,
}

impl<'a> EventObserver<'a> {
    pub(super) fn new(events: &'a Events) -> EventObserver<'a> {
        EventObserver {
            events,
            noted: Cell::new(None),
        }
    }
}

impl Observer for EventObserver<'_> {
    fn sees(&self, now: &Now) -> bool {
        let is_due = self
            .noted
            .get()
            .is_none_or(|noted| noted.elapsed() >= EVERY);
        if is_due {
            self.noted.set(Some(Instant::now()));
            self.events.at(now);
        }
        false
    }

    fn sees_times(&self, _phase: Phase, _pass: &Profile) {}

    fn sees_end(&self, now: &Now, metrics: &PhaseMetrics, _pass: &Profile) {
        self.events.at(now);
        let metrics = metrics.iter();
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
        self.events.add(HistoryRow {
            now: *now,
            metrics: metrics.collect(),
        });
    }
}

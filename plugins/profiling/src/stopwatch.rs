//! The times of a phase's iterations.

use std::time::Instant;

/// What an iteration took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lap {
    /// Seconds until its batch was there.
    pub(crate) data: f64,
    /// Seconds from the end of the one before to its own end.
    pub(crate) whole: f64,
}

/// Measures the iterations of a phase, each from the end of the one before.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// The end of the iteration before, or the pass's begin.
    mark: Option<Instant>,
    /// The batch was there.
    loaded: Option<Instant>,
    /// The iterations measured in this process, those of the warm-up counted in.
    laps: u64,
}

impl Stopwatch {
    /// A pass begins, or goes on behind something that is no part of it.
    pub(crate) fn start(&mut self, now: Instant) {
        self.mark = Some(now);
        self.loaded = None;
    }

    /// The batch is there.
    pub(crate) fn loaded(&mut self, now: Instant) {
        self.loaded = Some(now);
    }

    /// An iteration is over; nothing where it had not been seen to begin, or is one of the first
    /// `warm_up` ones.
    pub(crate) fn lap(&mut self, now: Instant, warm_up: u64) -> Option<Lap> {
        let (mark, loaded) = (self.mark.replace(now)?, self.loaded.take()?);
        self.laps += 1;
        (self.laps > warm_up).then(|| Lap {
            data: (loaded - mark).as_secs_f64(),
            whole: (now - mark).as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn laps_are_measured_from_end_to_end_behind_the_warm_up() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut watch = Stopwatch::default();
        watch.loaded(at(1));
        assert_eq!(watch.lap(at(2), 0), None, "its begin was not seen");
        watch.start(at(10));
        watch.loaded(at(11));
        assert_eq!(watch.lap(at(14), 1), None, "the warm-up");
        watch.loaded(at(20));
        let lap = watch.lap(at(24), 1).expect("a lap");
        assert!((lap.data - 0.006).abs() < 1e-9 && (lap.whole - 0.010).abs() < 1e-9);
        // A validation lies between.
        watch.start(at(100));
        watch.loaded(at(101));
        let lap = watch.lap(at(103), 1).expect("a lap");
        assert!((lap.data - 0.001).abs() < 1e-9 && (lap.whole - 0.003).abs() < 1e-9);
    }
}

//! Times of a phase's iterations.

use std::time::Instant;

/// Times of one iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lap {
    /// Seconds until its batch was loaded.
    pub(crate) data: f64,
    /// Seconds from the end of the previous iteration to the end of this one.
    pub(crate) whole: f64,
}

/// Measures the iterations of a phase, each from the end of the previous one.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// End of the previous iteration, or start of the pass.
    mark: Option<Instant>,
    /// Time at which the batch was loaded.
    loaded: Option<Instant>,
    /// Number of iterations measured in this process, including the warm-up.
    laps: u64,
}

impl Stopwatch {
    /// Starts a pass, or continues one after an interruption that is not part of it.
    pub(crate) fn start(&mut self, now: Instant) {
        self.mark = Some(now);
        self.loaded = None;
    }

    /// Marks the batch as loaded.
    pub(crate) fn loaded(&mut self, now: Instant) {
        self.loaded = Some(now);
    }

    /// Ends an iteration; `None` if its start was not seen, or if it is one of the first `warm_up`.
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
        // A validation comes between.
        watch.start(at(100));
        watch.loaded(at(101));
        let lap = watch.lap(at(103), 1).expect("a lap");
        assert!((lap.data - 0.001).abs() < 1e-9 && (lap.whole - 0.003).abs() < 1e-9);
    }
}

//! Options of the hook, given under `config` in the manifest entry.

use sconce_plugin_api::prelude::*;

/// When the `console` hook prints a line, and how it formats numbers.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// Print a line every this many training iterations. 0: never. Default 50.
    pub(crate) interval: u64,
    /// What the interval counts and the line shows. Default `epoch`.
    pub(crate) count: Count,
    /// Print a line at the end of each pass over a phase's data. Default true.
    pub(crate) by_epoch: bool,
    /// The loss in an interval's line is the mean over this many iterations, from 1 (the last
    /// iteration alone) to 100000; the window carries over from one epoch to the next. Default 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window: usize,
    /// Print no line for the remaining batches at the end of an epoch when the interval doesn't
    /// divide it. Default true.
    pub(crate) ignore_last: bool,
    /// Prefix one line in this many with the run's name, starting with the first, to tell runs apart
    /// whose output is interleaved. 0: never. Default 0.
    pub(crate) name_every: u64,
    /// Also print a line every 5 iterations during the first 100 of the run, where the interval is
    /// longer. Default false.
    pub(crate) denser_at_first: bool,
    /// Also show the entries of metrics that are tables, such as `confusion/cat/dog`.
    /// Default false.
    pub(crate) tables: bool,
    /// Decimal places of losses, metrics and the learning rate, from 0 to 17. Default 4.
    #[schemars(range(max = 17))]
    pub(crate) digits: u8,
}

/// What an interval counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Count {
    /// The batches of each epoch, from its start.
    #[default]
    Epoch,
    /// The iterations of the whole run.
    Run,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            interval: 50,
            count: Count::Epoch,
            name_every: 0,
            by_epoch: true,
            window: 10,
            ignore_last: true,
            denser_at_first: false,
            tables: false,
            digits: 4,
        }
    }
}

impl Config {
    /// Whether a line is due after training iteration `iteration` of the run, which is batch
    /// `batch` of `batches` in its epoch (all from 1).
    pub(crate) fn is_due(&self, iteration: u64, batch: u64, batches: u64) -> bool {
        if self.interval == 0 {
            return false;
        }
        let done = match self.count {
            Count::Epoch => batch,
            Count::Run => iteration,
        };
        let dense = self.denser_at_first && iteration <= 100 && done.is_multiple_of(5);
        let last = !self.ignore_last && batch == batches;
        dense || last || done.is_multiple_of(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches after which a line is due in two epochs of 12 batches.
    fn lines(config: &Config) -> Vec<u64> {
        (1..=24)
            .filter(|&iteration| config.is_due(iteration, (iteration - 1) % 12 + 1, 12))
            .collect()
    }

    #[test]
    fn lines_come_at_intervals_of_each_epoch() {
        let config = |interval, ignore_last, denser_at_first| Config {
            interval,
            ignore_last,
            denser_at_first,
            ..Config::default()
        };
        let cases = [
            (config(8, true, false), vec![8, 20]),
            (config(8, false, false), vec![8, 12, 20, 24]),
            (config(6, false, false), vec![6, 12, 18, 24]),
            (config(8, true, true), vec![5, 8, 10, 17, 20, 22]),
            (config(50, true, false), vec![]),
            (config(0, false, true), vec![]),
        ];
        for (config, expected) in cases {
            assert_eq!(lines(&config), expected, "interval {}", config.interval);
        }
        let mut over_the_run = config(8, true, false);
        over_the_run.count = Count::Run;
        assert_eq!(lines(&over_the_run), [8, 16, 24]);
    }
}

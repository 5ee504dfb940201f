//! Options of the hook, given under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use crate::window::Smoothing;

/// When the `jsonl` hook writes a line, and what it contains.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The file, under the run's directory. Default `log.jsonl`.
    pub(crate) file: PathBuf,
    /// Separate file for the lines of epochs. Default: none, they go to `file` too.
    pub(crate) epochs_file: Option<PathBuf>,
    /// Write a line every this many training iterations, counted from the start of each epoch. 0:
    /// never. Default 50.
    pub(crate) interval: u64,
    /// Also write a line every 5 iterations during the first 100 of the run, where the interval is
    /// longer. Default false.
    pub(crate) denser_at_first: bool,
    /// Write no line for the remaining batches at the end of an epoch when the interval doesn't
    /// divide it. Default true.
    pub(crate) ignore_last: bool,
    /// Write a line at the end of each pass over a phase's data. Default true.
    pub(crate) by_epoch: bool,
    /// The loss in an interval's line covers this many iterations, from 1 to 100000; the window
    /// carries over from one epoch to the next. Default 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window: usize,
    /// How these losses are combined into one value. Default `mean`.
    pub(crate) smoothing: Smoothing,
    /// The contents of a line, in this order. Default: all but `batch`, `learning_rates`, and the
    /// times `elapsed`, `remaining` and `speed`, which differ from run to run.
    pub(crate) fields: Vec<Field>,
    /// The metrics in a line. Default: all.
    pub(crate) metrics: Option<Vec<String>>,
    /// Also write the entries of metrics that are tables, such as `confusion/cat/dog`.
    /// Default false.
    pub(crate) tables: bool,
    /// Significant digits of fractional numbers, from 1 to 17. Default: as many as are needed to
    /// read back the same number.
    #[schemars(range(min = 1, max = 17))]
    pub(crate) digits: Option<u8>,
    /// How NaN and infinite numbers are written, which JSON lacks. Default `null`.
    pub(crate) not_finite: NotFinite,
    /// Sync each line to disk before training continues: it then survives a power failure, not only
    /// the end of the process, at the cost of milliseconds. Default false.
    pub(crate) fsync: bool,
}

/// A field that a line can contain, under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Field {
    /// Training epochs finished.
    Epoch,
    /// Training batches finished in the whole run.
    Iteration,
    /// Optimizer steps finished.
    Update,
    /// Training samples seen.
    Samples,
    /// Batches finished in this pass.
    Batch,
    /// The optimizer's learning rate.
    LearningRate,
    /// The learning rate of each parameter group, as an object.
    LearningRates,
    /// The loss: smoothed in an interval's line, the pass's mean in an epoch's.
    Loss,
    /// All metrics but the loss, each under its name: their means over the pass so far.
    Metrics,
    /// Seconds since the run began.
    Elapsed,
    /// Estimated seconds until the end of training.
    Remaining,
    /// Samples per second: since the last interval's line, or during the pass.
    Speed,
}

/// How NaN and infinite numbers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotFinite {
    /// As `null`.
    #[default]
    Null,
    /// As the strings `"NaN"`, `"inf"` and `"-inf"`.
    Text,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: "log.jsonl".into(),
            epochs_file: None,
            interval: 50,
            denser_at_first: false,
            ignore_last: true,
            by_epoch: true,
            window: 10,
            smoothing: Smoothing::Mean,
            fields: vec![
                Field::Epoch,
                Field::Iteration,
                Field::Update,
                Field::Samples,
                Field::LearningRate,
                Field::Loss,
                Field::Metrics,
            ],
            metrics: None,
            tables: false,
            digits: None,
            not_finite: NotFinite::Null,
            fsync: false,
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
        let dense = self.denser_at_first && iteration <= 100 && batch.is_multiple_of(5);
        let last = !self.ignore_last && batch == batches;
        dense || last || batch.is_multiple_of(self.interval)
    }

    /// Whether a metric is in a line. The loss has a field of its own.
    pub(crate) fn has_metric(&self, name: &str) -> bool {
        let is_chosen = match &self.metrics {
            Some(chosen) => chosen.iter().any(|chosen| chosen == name),
            None => self.tables || !name.contains('/'),
        };
        is_chosen && name != "loss"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_intervals_of_each_epoch() {
        for (interval, ignore_last, denser_at_first, expected) in [
            (8, true, false, vec![8, 20]),
            (8, false, false, vec![8, 12, 20, 24]),
            (8, true, true, vec![5, 8, 10, 17, 20, 22]),
            (0, false, true, vec![]),
        ] {
            let config = Config {
                interval,
                denser_at_first,
                ignore_last,
                ..Config::default()
            };
            // Two epochs of 12 batches.
            let lines = (1..=24).filter(|&i| config.is_due(i, (i - 1) % 12 + 1, 12));
            assert_eq!(lines.collect::<Vec<u64>>(), expected, "interval {interval}");
        }
    }
}

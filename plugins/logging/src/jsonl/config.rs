//! What stands under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use crate::window::Smoothing;

/// When the `jsonl` hook writes a line, and what is in it.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The file, below the run's directory. Default `log.jsonl`.
    pub(crate) file: PathBuf,
    /// Another file for the lines of epochs. Default: none, they are in `file` too.
    pub(crate) epochs_file: Option<PathBuf>,
    /// A line every so many training iterations, counted from the start of each epoch. 0: none.
    /// Default 50.
    pub(crate) interval: u64,
    /// A line every 5 iterations during the first 100 of the run, where the interval is longer.
    /// Default false.
    pub(crate) denser_at_first: bool,
    /// No line for what is left over at the end of an epoch when the interval doesn't divide it.
    /// Default true.
    pub(crate) ignore_last: bool,
    /// A line at the end of each pass over a phase's data. Default true.
    pub(crate) by_epoch: bool,
    /// The loss in an interval's line is that of so many iterations, from 1 to 100000; it goes on
    /// over the ends of epochs. Default 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window: usize,
    /// How these become one. Default `mean`.
    pub(crate) smoothing: Smoothing,
    /// What is in a line, in this order. Default: all but `batch`, `learning_rates`, and the times
    /// `elapsed`, `remaining` and `speed`, which differ from run to run.
    pub(crate) fields: Vec<Field>,
    /// The metrics that are in a line. Default: all.
    pub(crate) metrics: Option<Vec<String>>,
    /// The parts of metrics that are tables, `confusion/cat/dog`, too. Default false.
    pub(crate) tables: bool,
    /// Significant digits of numbers that are not whole, from 1 to 17. Default: as many as lead
    /// back to the same number.
    #[schemars(range(min = 1, max = 17))]
    pub(crate) digits: Option<u8>,
    /// How infinite numbers and those that are none are written, which JSON has not. Default `null`.
    pub(crate) not_finite: NotFinite,
    /// Bring each line to the disk before the training goes on: it survives a power failure, not
    /// only the end of the process, and costs milliseconds. Default false.
    pub(crate) fsync: bool,
}

/// Something that a line can hold, under this name.
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
    /// Seconds until the training's end, estimated.
    Remaining,
    /// Samples per second: since the last interval's line, or in the pass.
    Speed,
}

/// How numbers that JSON has not are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotFinite {
    /// As `null`.
    #[default]
    Null,
    /// As the texts `"NaN"`, `"inf"` and `"-inf"`.
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
    /// Whether an interval ends with training iteration `iteration` of the run, which is batch
    /// `batch` of `batches` in its epoch (all from 1).
    pub(crate) fn is_due(&self, iteration: u64, batch: u64, batches: u64) -> bool {
        if self.interval == 0 {
            return false;
        }
        let dense = self.denser_at_first && iteration <= 100 && batch.is_multiple_of(5);
        let last = !self.ignore_last && batch == batches;
        dense || last || batch.is_multiple_of(self.interval)
    }

    /// Whether a metric is in a line. The loss has a place of its own.
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

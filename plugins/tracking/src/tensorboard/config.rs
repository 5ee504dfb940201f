//! Options of the hook, given under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

/// What the `tensorboard` hook writes, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The directory, under the run's. Default: the entry's name.
    pub(crate) directory: Option<PathBuf>,
    /// Write training scalars under `iteration/` every this many iterations, counted over the run:
    /// the loss, as its mean since the last time, and the other metrics, as their means over the
    /// epoch so far. 0: never. Default 50.
    pub(crate) interval: u64,
    /// Write the metrics of each phase, such as `val/accuracy`, at the end of each pass.
    /// Default true.
    pub(crate) by_epoch: bool,
    /// What the x-axis counts. Default `iteration`.
    pub(crate) axis: Axis,
    /// Write the learning rate at each interval, per group if there are several; without an
    /// interval, at the end of each training epoch. Default true.
    pub(crate) learning_rates: bool,
    /// Also write the entries of metrics that are tables, such as `confusion/cat/dog`.
    /// Default false.
    pub(crate) tables: bool,
    /// Write histograms every this many updates. 0: never. Default 0.
    pub(crate) histograms_every: u64,
    /// The tensors that get histograms. Default: both.
    pub(crate) histograms_of: Vec<HistogramOf>,
    /// Names of the parameters that get histograms; `*` matches any text. Default: all.
    pub(crate) parameters: Vec<String>,
    /// Also write histograms of buffers, such as a batch norm's running means. Default false.
    pub(crate) buffers: bool,
    /// Number of buckets of a histogram, from 1 to 10000. Default 64.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) buckets: usize,
    /// Write a grid of the first batch's inputs every this many epochs, for each phase, if they are
    /// images of one or three channels. 0: never. Default 0.
    pub(crate) images_every: u64,
    /// Maximum number of images in a grid, from 1 to 1024. Default 16.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) images_count: usize,
    /// The values shown as black and as white. Default: the smallest and the largest in the grid.
    pub(crate) images_range: Option<[f64; 2]>,
    /// Write the run's manifest as a text. Default true.
    pub(crate) manifest: bool,
    /// Write events to the file at most every this many seconds, and at checkpoints and the end;
    /// those not yet written are lost if the process is killed. 0: at once. Default 0.
    #[schemars(range(min = 0))]
    pub(crate) flush_seconds: f64,
}

/// What the x-axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Axis {
    /// Training iterations.
    #[default]
    Iteration,
    /// Updates.
    Update,
    /// Training samples.
    Samples,
    /// Epochs; events within an epoch use the iteration.
    Epoch,
}

/// Tensors that can get histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HistogramOf {
    /// The parameters, after the update.
    Parameters,
    /// The gradients used for the update.
    Gradients,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            directory: None,
            interval: 50,
            by_epoch: true,
            axis: Axis::Iteration,
            learning_rates: true,
            tables: false,
            histograms_every: 0,
            histograms_of: vec![HistogramOf::Parameters, HistogramOf::Gradients],
            parameters: vec!["*".to_owned()],
            buffers: false,
            buckets: 64,
            images_every: 0,
            images_count: 16,
            images_range: None,
            manifest: true,
            flush_seconds: 0.0,
        }
    }
}

impl Config {
    /// What of the loop the hook reads with this configuration.
    pub(crate) fn reads(&self) -> Vec<&'static str> {
        let has = |of| self.histograms_every > 0 && self.histograms_of.contains(&of);
        let reads = [
            (true, "loss"),
            (self.learning_rates, "groups"),
            (has(HistogramOf::Parameters), "parameters"),
            (has(HistogramOf::Gradients), "gradients"),
            (self.images_every > 0, "inputs"),
        ];
        let reads = reads.into_iter().filter(|(is_read, _)| *is_read);
        reads.map(|(_, name)| name).collect()
    }

    /// Whether histograms of this parameter are written.
    pub(crate) fn has_histogram(&self, name: &str, is_buffer: bool) -> bool {
        let is_named = || self.parameters.iter().any(|pattern| matches(pattern, name));
        (self.buffers || !is_buffer) && is_named()
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    // The earliest match is the best one for each part between two stars.
    while let Some((part, behind)) = rest.split_once('*') {
        let Some((_, left)) = name.split_once(part) else {
            return false;
        };
        (name, rest) = (left, behind);
    }
    name.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, expected) in [
            ("*", true),
            ("fc1.weight", true),
            ("fc1", false),
            ("fc*", true),
            ("*.weight", true),
            ("*.bias", false),
            ("f*1*t", true),
            ("*1*1*", false),
            ("fc1.weight*", true),
            ("*c1.*eight", true),
        ] {
            assert_eq!(matches(pattern, "fc1.weight"), expected, "{pattern}");
        }
    }
}

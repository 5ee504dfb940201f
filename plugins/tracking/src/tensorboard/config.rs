//! What stands under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

/// What the `tensorboard` hook writes, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The directory, below the run's. Default: the entry's name.
    pub(crate) directory: Option<PathBuf>,
    /// Training scalars under `iteration/` every so many iterations, counted over the run: the
    /// loss, its mean since the last time, the other metrics, their means over the epoch so far.
    /// 0: none. Default 50.
    pub(crate) interval: u64,
    /// The metrics of each phase at the end of each pass, as `val/accuracy`. Default true.
    pub(crate) by_epoch: bool,
    /// What the x-axis counts. Default `iteration`.
    pub(crate) axis: Axis,
    /// The learning rate at each interval, of each group where there are several; at the end of
    /// each training epoch where there is no interval. Default true.
    pub(crate) learning_rates: bool,
    /// The parts of metrics that are tables, `confusion/cat/dog`, too. Default false.
    pub(crate) tables: bool,
    /// Histograms every so many updates. 0: none. Default 0.
    pub(crate) histograms_every: u64,
    /// Of what there are histograms. Default: both.
    pub(crate) histograms_of: Vec<HistogramOf>,
    /// Of which parameters, by their names; `*` stands for any text. Default: all.
    pub(crate) parameters: Vec<String>,
    /// Of buffers too, as a batch norm's means. Default false.
    pub(crate) buffers: bool,
    /// Buckets of a histogram, from 1 to 10000. Default 64.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) buckets: usize,
    /// A grid of the first batch's inputs in every so many epochs, of each phase, where they are
    /// images of one or three channels. 0: none. Default 0.
    pub(crate) images_every: u64,
    /// At most so many images in a grid, from 1 to 1024. Default 16.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) images_count: usize,
    /// The numbers that are shown as black and as white. Default: the least and the greatest that
    /// the grid has.
    pub(crate) images_range: Option<[f64; 2]>,
    /// The run's manifest as a text. Default true.
    pub(crate) manifest: bool,
    /// Events are written to the file at most every so many seconds, and at checkpoints and the
    /// end; those that wait are lost where the process is killed. 0: at once. Default 0.
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
    /// Epochs; what is written within an epoch keeps its iteration.
    Epoch,
}

/// Of what there are histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HistogramOf {
    /// The parameters, after the update.
    Parameters,
    /// The gradients that the update was made with.
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
    /// Whether there are histograms of this parameter.
    pub(crate) fn has_histogram(&self, name: &str, is_buffer: bool) -> bool {
        let is_named = || self.parameters.iter().any(|pattern| matches(pattern, name));
        (self.buffers || !is_buffer) && is_named()
    }
}

/// Whether a name is what a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    // Each part between two stars is best found as early as it comes.
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

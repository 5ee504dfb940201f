//! What stands under `config` in the manifest entry.

use sconce_plugin_api::prelude::*;

/// What a bar looks like, and how often it is drawn.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// A bar is drawn at most so many times in a second, from 0.1 to 60. Default 10.
    #[schemars(range(min = 0.1, max = 60))]
    pub(crate) refresh_per_second: f64,
    /// The bar's last state stays as a line when its pass is over. Default false: it goes.
    pub(crate) leave: bool,
    /// The bar's width in characters, from 1 to 200. Default 20.
    #[schemars(range(min = 1, max = 200))]
    pub(crate) width: usize,
    /// Draw the bar with `=` and `>` instead of blocks. Default false.
    pub(crate) ascii: bool,
    /// The metrics beside the bar; those that have no value are left out. In training the loss is
    /// smoothed, all else is the mean over the pass so far. Default: the loss.
    pub(crate) metrics: Vec<String>,
    /// The loss of a training is the mean over so many iterations, from 1 to 100000. Default 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window: usize,
    /// Decimal places of metrics, from 0 to 17. Default 4.
    #[schemars(range(max = 17))]
    pub(crate) digits: usize,
    /// What the rate counts. Default `samples`.
    pub(crate) rate: Rate,
    /// The time left to the end of the pass. Default true.
    pub(crate) eta: bool,
    /// The time left to the end of the whole training too, in its passes. Default false.
    pub(crate) total_eta: bool,
    /// So many lines for each pass where messages go to no terminal, the last one at its end.
    /// 0: none. Default 1.
    pub(crate) plain_lines: u64,
}

/// What the rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rate {
    /// Samples per second.
    #[default]
    Samples,
    /// Iterations per second.
    Iterations,
    /// None is shown.
    None,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            refresh_per_second: 10.0,
            leave: false,
            width: 20,
            ascii: false,
            metrics: vec!["loss".to_owned()],
            window: 10,
            digits: 4,
            rate: Rate::Samples,
            eta: true,
            total_eta: false,
            plain_lines: 1,
        }
    }
}

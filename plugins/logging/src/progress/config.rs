//! Options of the hook, given under `config` in the manifest entry.

use sconce_plugin_api::prelude::*;

/// What a bar looks like, and how often it is drawn.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// Redraw the bar at most this many times per second, from 0.1 to 60. Default 10.
    #[schemars(range(min = 0.1, max = 60))]
    pub(crate) refresh_per_second: f64,
    /// Leave the bar's last state as a line when its pass is over. Default false: it is removed.
    pub(crate) leave: bool,
    /// The bar's width in characters, from 1 to 200. Default 20.
    #[schemars(range(min = 1, max = 200))]
    pub(crate) width: usize,
    /// Draw the bar with `=` and `>` instead of blocks. Default false.
    pub(crate) ascii: bool,
    /// The metrics beside the bar; those without a value are omitted. In training the loss is
    /// smoothed, all others are means over the pass so far. Default: the loss.
    pub(crate) metrics: Vec<String>,
    /// The training loss is the mean over this many iterations, from 1 to 100000. Default 10.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window: usize,
    /// Decimal places of metrics, from 0 to 17. Default 4.
    #[schemars(range(max = 17))]
    pub(crate) digits: usize,
    /// What the rate counts. Default `samples`.
    pub(crate) rate: Rate,
    /// Show the time left until the end of the pass. Default true.
    pub(crate) eta: bool,
    /// Also show the time left until the end of all training passes. Default false.
    pub(crate) total_eta: bool,
    /// Number of lines per pass where messages don't go to a terminal, the last one at its end. 0:
    /// none. Default 1.
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
    /// No rate.
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

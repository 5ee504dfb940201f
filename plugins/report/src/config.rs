//! Options of the hook, given under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

/// Contents of the page, and when it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The page's file, under the run's directory. Default `report.html`.
    pub(crate) file: PathBuf,
    /// The page's title. Default: the run's name.
    pub(crate) title: Option<String>,
    /// Write the page after every this many epochs, and at the start and end of the run; at
    /// least 1. Default 1.
    #[schemars(range(min = 1))]
    pub(crate) every: u64,
    /// Also plot the batches' losses and the learning rates, every this many training iterations;
    /// 0: don't. Whenever a curve exceeds 2,000 points, every second one is dropped. Default 0.
    pub(crate) iterations: u64,
    /// The metrics that are plotted. Default (null): all.
    pub(crate) metrics: Option<Vec<String>>,
    /// Plot these metrics on logarithmic vertical axes. Default: none.
    pub(crate) logarithmic: Vec<String>,
    /// Show confusion matrices of validation and test, for outputs with one score per class.
    /// Default true.
    pub(crate) confusion: bool,
    /// Maximum number of classes of a confusion matrix; from 2 to 1,000. Default 50.
    #[schemars(range(min = 2, max = 1000))]
    pub(crate) most_classes: usize,
    /// Show the manifest. The values of keys that name a password, a token or another secret are
    /// omitted. Default true.
    pub(crate) manifest: bool,
    /// While the run is in progress, an open page reloads every this many seconds; 0: never.
    /// Default 30.
    pub(crate) refresh: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: PathBuf::from("report.html"),
            title: None,
            every: 1,
            iterations: 0,
            metrics: None,
            logarithmic: Vec::new(),
            confusion: true,
            most_classes: 50,
            manifest: true,
            refresh: 30,
        }
    }
}

impl Config {
    /// Whether a metric is plotted.
    pub(crate) fn shows(&self, metric: &str) -> bool {
        let listed = self.metrics.as_deref();
        listed.is_none_or(|listed| listed.iter().any(|name| name == metric))
    }
}

//! What stands under `config` in the manifest entry.

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

/// What the page shows, and when it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The page's file, below the run's directory. Default `report.html`.
    pub(crate) file: PathBuf,
    /// The page's title. Default: the run's name.
    pub(crate) title: Option<String>,
    /// The page is written after every so many epochs, and at the run's begin and end; at least 1.
    /// Default 1.
    #[schemars(range(min = 1))]
    pub(crate) every: u64,
    /// Batches' losses and learning rates are drawn too, every so many training iterations; 0: they are
    /// not. Of more than 2,000 points every second one is left out, again and again. Default 0.
    pub(crate) iterations: u64,
    /// The metrics that are drawn. Default (null): all.
    pub(crate) metrics: Option<Vec<String>>,
    /// Draw vertical axes of these metrics logarithmically. Default: none.
    pub(crate) logarithmic: Vec<String>,
    /// Confusion matrices of validation and test, where outputs have a number for each class. Default true.
    pub(crate) confusion: bool,
    /// No confusion matrix of more classes than this; from 2 to 1,000. Default 50.
    #[schemars(range(min = 2, max = 1000))]
    pub(crate) most_classes: usize,
    /// Show the manifest. The values of keys that name a password, a token or another secret are left out
    /// of it. Default true.
    pub(crate) manifest: bool,
    /// While the run goes on, an open page loads itself anew every so many seconds; 0: it does not.
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
    /// Refuses what the types allow and no run can do.
    pub(crate) fn check(&self) -> Result<()> {
        if self.every == 0 {
            bail!("`every` must be at least 1, found 0");
        }
        if !(2..=1000).contains(&self.most_classes) {
            bail!(
                "`most_classes` must be from 2 to 1000, found {}",
                self.most_classes
            );
        }
        Ok(())
    }

    /// Whether a metric is drawn.
    pub(crate) fn shows(&self, metric: &str) -> bool {
        let listed = self.metrics.as_deref();
        listed.is_none_or(|listed| listed.iter().any(|name| name == metric))
    }
}

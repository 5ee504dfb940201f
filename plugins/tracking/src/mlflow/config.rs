//! Options of the hook, given under `config` in the manifest entry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use crate::outbox::OnFailure;

/// Which MLflow server the run is logged to, and what is logged.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The tracking server: `http://HOST:PORT`. Default: the value of the environment variable
    /// `MLFLOW_TRACKING_URI`, or `http://127.0.0.1:5000`.
    pub(crate) uri: Option<String>,
    /// The experiment, created if it doesn't exist. Default `Default`.
    pub(crate) experiment: String,
    /// The run's name in MLflow. Default: the manifest's.
    pub(crate) run_name: Option<String>,
    /// Tags of the run, by name. Default: only MLflow's own and those of the outcome.
    pub(crate) tags: BTreeMap<String, String>,
    /// Log the manifest as parameters, such as `train.epochs`. Default true.
    pub(crate) params: bool,
    /// Log training metrics, such as `iteration/loss`, every this many iterations, counted over the
    /// run. 0: never. Default 50.
    pub(crate) interval: u64,
    /// Log the metrics of each phase, such as `val/accuracy`, at the end of each pass.
    /// Default true.
    pub(crate) by_epoch: bool,
    /// Log the learning rate with the interval's metrics. Default true.
    pub(crate) learning_rate: bool,
    /// Also log the entries of metrics that are tables. Default false.
    pub(crate) tables: bool,
    /// Files of the run's directory to upload when the run ends, such as `manifest.json` or
    /// `train.csv`. The server must serve its artifacts. Default: none.
    pub(crate) artifacts: Vec<PathBuf>,
    /// Environment variable with a token for the server. Default `MLFLOW_TRACKING_TOKEN`, which
    /// need not be set.
    pub(crate) token_from: Option<String>,
    /// Time limit of a request in seconds, above 0; also of sending the remaining messages when the
    /// run ends. Default 30.
    #[schemars(range(min = 0.001, max = 3600))]
    pub(crate) timeout: f64,
    /// Response to a message that the server doesn't accept. Default `warn`.
    pub(crate) on_failure: OnFailure,
    /// Maximum number of waiting messages, from 1 to 100000; further ones are dropped.
    /// Default 1024.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) queue: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            uri: None,
            experiment: "Default".to_owned(),
            run_name: None,
            tags: BTreeMap::new(),
            params: true,
            interval: 50,
            by_epoch: true,
            learning_rate: true,
            tables: false,
            artifacts: Vec::new(),
            token_from: None,
            timeout: 30.0,
            on_failure: OnFailure::Warn,
            queue: 1024,
        }
    }
}

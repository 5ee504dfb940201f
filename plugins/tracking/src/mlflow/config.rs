//! What stands under `config` in the manifest entry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use crate::outbox::OnFailure;

/// Which MLflow server the run is logged to, and what of it.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub(crate) struct Config {
    /// The tracking server: `http://HOST:PORT`. Default: what the variable `MLFLOW_TRACKING_URI` of
    /// the environment says, or `http://127.0.0.1:5000`.
    pub(crate) uri: Option<String>,
    /// The experiment, made where it is not there. Default `Default`.
    pub(crate) experiment: String,
    /// The run's name there. Default: the manifest's.
    pub(crate) run_name: Option<String>,
    /// Tags of the run, by name. Default: none but MLflow's own and the outcome's.
    pub(crate) tags: BTreeMap<String, String>,
    /// The manifest as parameters, `train.epochs` and so on. Default true.
    pub(crate) params: bool,
    /// Training metrics as `iteration/loss` every so many iterations, counted over the run. 0: none.
    /// Default 50.
    pub(crate) interval: u64,
    /// The metrics of each phase at the end of each pass, as `val/accuracy`. Default true.
    pub(crate) by_epoch: bool,
    /// The learning rate with the interval's metrics. Default true.
    pub(crate) learning_rate: bool,
    /// The parts of metrics that are tables, too. Default false.
    pub(crate) tables: bool,
    /// Files of the run's directory that are uploaded when the run ends, as `manifest.json` or
    /// `train.csv`. The server must serve its artifacts. Default: none.
    pub(crate) artifacts: Vec<PathBuf>,
    /// The variable of the environment with a token for the server. Default
    /// `MLFLOW_TRACKING_TOKEN`, which need not be there.
    pub(crate) token_from: Option<String>,
    /// Seconds that a request may take, above 0; and what is still to be sent when the run ends.
    /// Default 30.
    #[schemars(range(min = 0.001, max = 3600))]
    pub(crate) timeout: f64,
    /// What becomes of what the server doesn't take. Default `warn`.
    pub(crate) on_failure: OnFailure,
    /// So many messages wait at most, from 1 to 100000; what comes then is left out. Default 1024.
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

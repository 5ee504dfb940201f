//! Time limits for plugins.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time limits for plugins, in seconds or as a fraction of a pass over the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Limit for opening the libraries in a trial process; a plugin that takes longer is refused. The
    /// environment variable `SCONCE_LOAD_LIMIT` takes precedence.
    #[schemars(range(min = 0.01, max = 86400.0))]
    pub load: f64,
    /// A hook's call that takes longer than this causes a warning.
    #[schemars(range(min = 0.01, max = 864_000.0))]
    pub slow_call: f64,
    /// A hook that takes more than this fraction (0 to 1) of a pass over a phase's data causes a warning.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hook_share: f64,
    /// A hook's call that takes longer than this counts as a hang and ends the process. Default: no limit. An
    /// entry's `time_limit` takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.01, max = 864_000.0))]
    pub call: Option<f64>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            load: 10.0,
            slow_call: 30.0,
            hook_share: 0.25,
            call: None,
        }
    }
}

/// Environment variable with the time limit of trial loads in seconds; takes precedence over the manifest's.
pub const LOAD_LIMIT: &str = "SCONCE_LOAD_LIMIT";

impl LimitsConfig {
    /// The time limit of a hook's call, for entries without their own.
    pub fn call_limit(&self) -> Option<Duration> {
        self.call.map(seconds)
    }

    /// The duration after which a hook's call causes a warning.
    pub fn slow_call_limit(&self) -> Duration {
        seconds(self.slow_call)
    }

    /// The time limit of a trial load, from the environment variable or else the manifest.
    pub fn load_limit(&self) -> Duration {
        let given = std::env::var(LOAD_LIMIT).ok();
        let given = given.and_then(|text| text.trim().parse::<f64>().ok());
        seconds(given.filter(|limit| *limit > 0.0).unwrap_or(self.load))
    }
}

/// Converts seconds to a duration; a value that a [`Duration`] can't hold becomes the maximum.
pub fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

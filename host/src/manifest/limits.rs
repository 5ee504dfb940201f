//! How much time plugins get.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much time plugins get, in seconds or in parts of the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// For opening the libraries in a trial; a plugin that is not done then is refused. The
    /// environment variable `SCONCE_LOAD_LIMIT` goes before it.
    #[schemars(range(min = 0.01, max = 86400.0))]
    pub load: f64,
    /// A hook's call that takes longer is warned of.
    #[schemars(range(min = 0.01, max = 864_000.0))]
    pub slow_call: f64,
    /// A hook that takes more than this part of a pass over a phase's data is warned of, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hook_share: f64,
    /// A hook's call that takes longer is a hang: it ends the process. Default: no limit. An entry's
    /// `time_limit` goes before it.
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

impl LimitsConfig {
    /// How long a hook's call may take, unless its entry says.
    pub fn call_limit(&self) -> Option<Duration> {
        self.call.map(seconds)
    }

    /// After which time a hook's call is warned of.
    pub fn slow_call_limit(&self) -> Duration {
        seconds(self.slow_call)
    }

    /// The time for a trial load, by the environment or the manifest.
    pub fn load_limit(&self) -> Duration {
        let given = std::env::var(crate::plugin::trial::VARIABLE).ok();
        let given = given.and_then(|text| text.trim().parse::<f64>().ok());
        seconds(given.filter(|limit| *limit > 0.0).unwrap_or(self.load))
    }
}

/// A number of seconds that the schema has let pass, or anything else from outside.
pub(crate) fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

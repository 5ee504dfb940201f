//! When hooks' libraries are loaded again in mid-run: `reload` in an entry, `reload_at` in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in the training hooks' libraries are loaded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadAt {
    /// Between two epochs.
    #[default]
    Epoch,
    /// After the next iteration.
    Iteration,
}

//! Names of the hooks for reports, prepared in advance.

use std::path::PathBuf;
use std::time::Duration;

/// A hook that may be at fault.
#[derive(Clone, Debug, Default)]
pub struct Suspect {
    /// Name of the hook in the run.
    pub name: String,
    /// Name of the plugin.
    pub plugin: String,
    /// File of the plugin.
    pub file: String,
    /// The file that was loaded: a private copy of the plugin.
    pub loaded: PathBuf,
    /// Time limit of one of its calls.
    pub time_limit: Option<Duration>,
    /// Whether it runs in a process of its own.
    pub is_isolated: bool,
}

/// Hooks of a run, and the path of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects {
    /// In the manifest's order.
    pub(crate) hooks: Vec<Suspect>,
    /// What reports begin with: this process's name among those that train together, if there are any.
    pub(crate) who: String,
    /// Path of the report, for display.
    pub(crate) report_shown: String,
}

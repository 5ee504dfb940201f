//! The hooks as reports name them, prepared before anything can go wrong.

use std::path::PathBuf;
use std::time::Duration;

/// A hook.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspect {
    /// Its name in the run.
    pub(crate) name: String,
    /// The plugin's name.
    pub(crate) plugin: String,
    /// The plugin's file.
    pub(crate) file: String,
    /// The file that was loaded, the plugin's private copy.
    pub(crate) loaded: PathBuf,
    /// How long one of its calls may take.
    pub(crate) time_limit: Option<Duration>,
}

/// The hooks of a run, and where a report goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects {
    /// In the manifest's order.
    pub(crate) hooks: Vec<Suspect>,
    /// The report's path for people.
    pub(crate) report_shown: String,
}

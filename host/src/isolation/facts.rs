//! What is known of a hook in a process of its own.

use std::path::PathBuf;

/// What a report of a hook's end names.
#[derive(Clone, Debug)]
pub(crate) struct HookFacts {
    /// Name of the hook in the run.
    pub(crate) name: String,
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// File of the plugin.
    pub(crate) file: PathBuf,
    /// The run's directory.
    pub(crate) run_directory: PathBuf,
    /// Whether its state is saved after each cycle, for a restart.
    pub(crate) keeps_state: bool,
}

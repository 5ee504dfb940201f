//! Rules of a sandbox.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The environment variable that has the system calls that a sandbox refuses named in the hook's output.
pub(crate) const SANDBOX_LOG: &str = "SCONCE_SANDBOX_LOG";

/// Whether that is asked for.
#[cfg(target_os = "linux")]
pub(super) fn sandbox_log_is_on() -> bool {
    std::env::var_os(SANDBOX_LOG).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Rules of a sandbox, from the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SandboxRules {
    /// Files and directories that may be read.
    pub(crate) read: Vec<PathBuf>,
    /// Directories whose files' names may be read.
    pub(crate) list: Vec<PathBuf>,
    /// Directories in which everything is allowed.
    pub(crate) write: Vec<PathBuf>,
    /// Whether sockets may be opened.
    pub(crate) network: bool,
    /// Whether programs may be started.
    pub(crate) processes: bool,
    /// Environment variables that it may see, besides those of every process.
    pub(crate) environment: Vec<String>,
    /// The most address space in bytes, apart from what the process has at its start.
    pub(crate) memory: Option<u64>,
    /// Whether a system that can't restrict files is an error.
    pub(crate) strict: bool,
}

//! Reports of crashes and hangs, on systems that have them.

use std::path::Path;

use super::suspects::Suspects;
use super::trail::Trail;

/// Installs the handlers that report crashes.
///
/// # Errors
///
/// The system's, or that this one has no such handlers.
#[cfg(target_os = "linux")]
pub(super) fn install(
    trail: &'static Trail,
    suspects: Suspects,
    directory: &Path,
) -> std::io::Result<()> {
    super::crash::install(trail, suspects, directory)
}

/// Only Linux has them so far.
#[cfg(not(target_os = "linux"))]
pub(super) fn install(_: &'static Trail, _: Suspects, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("Sconce does so on Linux alone"))
}

/// Reports a call that has lasted for this many seconds; whether it was the first report of this process.
#[cfg(target_os = "linux")]
pub(super) fn tell_hang(seconds: u64) -> bool {
    super::crash::tell_hang(seconds)
}

/// There is no report.
#[cfg(not(target_os = "linux"))]
pub(super) fn tell_hang(_seconds: u64) -> bool {
    true
}

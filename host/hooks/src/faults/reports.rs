//! Reporting of crashes and hangs, with stand-ins for systems without handlers.

use std::path::Path;

use super::suspects::Suspects;
use super::trail::Trail;

/// Installs the handlers that report crashes.
///
/// # Errors
///
/// If the system refuses, or has no such handlers.
#[cfg(target_os = "linux")]
pub(super) fn install(
    trail: &'static Trail,
    suspects: Suspects,
    directory: &Path,
) -> std::io::Result<()> {
    super::crash::install(trail, suspects, directory)
}

/// Fails: the handlers exist only on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn install(_: &'static Trail, _: Suspects, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("Sconce does so on Linux alone"))
}

/// Reports a call that has lasted for `seconds`; false if another report is already being written.
#[cfg(target_os = "linux")]
pub(super) fn tell_hang(seconds: u64) -> bool {
    super::crash::tell_hang(seconds)
}

/// Writes no report.
#[cfg(not(target_os = "linux"))]
pub(super) fn tell_hang(_seconds: u64) -> bool {
    true
}

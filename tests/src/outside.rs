//! Crates outside the workspace, built as their authors would.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::artifacts;
use crate::workspace;

/// The shared target directory of these crates: their dependencies are built once.
pub fn outside_target() -> PathBuf {
    artifacts().directory().join("outside-plugin")
}

/// The cargo of these tests in a crate's directory, without network or the workspace's flags.
pub fn cargo_outside(directory: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(directory)
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TARGET_DIR", outside_target())
        // Debug information is large, and no test reads it.
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove("RUSTFLAGS");
    cargo
}

/// Locks a crate to the versions that the workspace was built with: those are on this machine.
///
/// # Panics
///
/// If the lock file can't be copied.
pub fn lock_versions(directory: &Path) {
    let example = workspace().join("examples/outside-plugin/Cargo.lock");
    std::fs::copy(example, directory.join("Cargo.lock")).expect("the lock file can be copied");
}

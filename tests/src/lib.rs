//! Shared code of the integration tests and benchmarks: the built workspace, runs in temporary
//! directories, manifests.
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

pub mod bench;
mod build;
mod c_plugin;
pub mod generated;
pub mod in_process;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod injection;
#[cfg(unix)]
pub mod kill;
mod manifest;
pub mod mutations;
mod outside;
mod python;
mod sconce;
pub mod steps;
mod waiting;

use std::path::PathBuf;

pub use build::{Artifacts, artifacts};
pub use manifest::{digits, edit, tiny};
pub use outside::{cargo_outside, lock_versions, outside_target};
pub use python::{python_from_registry, python_with};
pub use sconce::{Finished, Workplace};
pub use waiting::{patched, until, until_ended};

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map(PathBuf::from).unwrap_or(tests)
}

/// The directory of real data beside the checkout, if it exists; prints a note if not.
pub fn shared_data() -> Option<PathBuf> {
    let data = workspace().join("../shared/data");
    if data.is_dir() {
        return Some(data);
    }
    skip("../shared/data with the real data is not here");
    None
}

/// The real MNIST images and labels of `../shared/data`, if they exist; prints a note if not.
pub fn shared_mnist() -> Option<(PathBuf, PathBuf)> {
    let data = shared_data()?;
    let images = data.join("mnist-10k-images-idx3-ubyte.gz");
    let labels = data.join("mnist-10k-labels-idx1-ubyte.gz");
    if images.is_file() && labels.is_file() {
        return Some((images, labels));
    }
    skip("../shared/data with the MNIST images is not here");
    None
}

/// Prints a note for the reader of a test's output.
#[expect(clippy::print_stderr, reason = "tests talk to whoever runs them")]
pub fn say(text: &str) {
    eprintln!("{text}");
}

/// Says that a test can't run here and why. Where nothing may be skipped, as in CI (`SCONCE_NO_SKIPS`), it fails.
///
/// # Panics
///
/// If that variable is set.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("SCONCE_NO_SKIPS").is_none(),
        "this test must run here, and can't: {why}"
    );
    say(&format!("skipped: {why}"));
}

//! The binary and the plugins, built by the cargo that runs the tests.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::workspace;

/// The directory of the build output.
#[derive(Debug)]
pub struct Artifacts {
    directory: PathBuf,
}

/// Builds the workspace's binary and plugins once per process, in the profile of this build.
///
/// `cargo test` builds only what tests link to, and no test links to a cdylib.
///
/// # Panics
///
/// If cargo can't be run or fails.
pub fn artifacts() -> &'static Artifacts {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    ARTIFACTS.get_or_init(|| {
        let directory = target_directory();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--workspace"])
            .current_dir(workspace());
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        if let Some(target) = directory.parent() {
            cargo.env("CARGO_TARGET_DIR", target);
        }
        let status = cargo.status().expect("cargo can be run");
        assert!(
            status.success(),
            "building the binary and the plugins failed"
        );
        Artifacts { directory }
    })
}

/// The directory of this profile: tests run in its `deps`.
fn target_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("this process has a file");
    let deps = executable.parent().expect("a file is in a directory");
    let directory = if deps.ends_with("deps") || deps.ends_with("examples") {
        deps.parent().expect("`deps` is in a profile's directory")
    } else {
        deps
    };
    directory.to_owned()
}

impl Artifacts {
    /// The `sconce` binary.
    pub fn sconce(&self) -> PathBuf {
        self.directory.join(format!("sconce{EXE_SUFFIX}"))
    }

    /// The library of a plugin crate.
    pub fn plugin(&self, package: &str) -> PathBuf {
        self.directory.join(library_name(package))
    }

    /// The directory with the binary and all libraries.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The file name of a package's library.
pub(crate) fn library_name(package: &str) -> String {
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"))
}

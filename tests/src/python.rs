//! Pythons for tests of hooks in Python: environments outside the checkout, made once and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::{say, skip};

/// Environment that has these packages, for `python` in a hook's configuration; `None`, with a note, if it can't be made
/// here: there is no `python3` with `venv`, or `pip` finds no registry.
///
/// It is kept in the system's temporary directory under a name derived from the packages and the interpreter, and used
/// again by later test runs.
///
/// # Panics
///
/// Where no test may be skipped (`SCONCE_NO_SKIPS`), if it can't be made.
pub fn python_with(packages: &[&str]) -> Option<PathBuf> {
    match environment(packages) {
        Ok(path) => Some(path),
        Err(why) => {
            skip(&why);
            None
        }
    }
}

/// As [`python_with`], for packages that take long to install: where `pip` finds no registry, the test is left out even
/// where no other may be, and a note says so.
///
/// # Panics
///
/// As [`python_with`], if there is no Python that can make environments.
pub fn python_from_registry(packages: &[&str]) -> Option<PathBuf> {
    python_with(&[])?;
    let made = environment(packages);
    made.inspect_err(|why| say(&format!("skipped: {why}"))).ok()
}

fn environment(packages: &[&str]) -> Result<PathBuf, String> {
    // Tests of one process wait for each other; those of others make an environment of their own, and the first stays.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let version = said(Command::new("python3").args([
        "-c",
        "import sys; print(sys.prefix.replace('/', '-') + '-%d.%d' % sys.version_info[:2])",
    ]))?;
    let name = format!(
        "sconce-tests-python{}-{}",
        version.trim(),
        packages.join("-")
    );
    let place = std::env::temp_dir().join(name);
    if place.join("complete").is_file() {
        return Ok(place);
    }
    let making = place.with_extension(format!("{}", std::process::id()));
    let made = make(&making, packages);
    let kept = made.and_then(|()| {
        // Another process may have been faster.
        fs::rename(&making, &place)
            .or_else(|error| {
                if place.join("complete").is_file() {
                    fs::remove_dir_all(&making)
                } else {
                    Err(error)
                }
            })
            .map_err(|error| format!("can't keep {}: {error}", place.display()))
    });
    if kept.is_err() {
        // Perhaps it was never made.
        drop(fs::remove_dir_all(&making));
    }
    kept.map(|()| place)
}

fn make(place: &Path, packages: &[&str]) -> Result<(), String> {
    said(Command::new("python3").args(["-m", "venv"]).arg(place))?;
    if !packages.is_empty() {
        let mut pip = Command::new(place.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        said(pip.args(packages))?;
    }
    fs::write(place.join("complete"), "").map_err(|error| error.to_string())
}

/// Runs a command for what it prints; the error says what failed.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let failed = |why: &str| {
        let program = command.get_program().to_string_lossy();
        let arguments: Vec<_> = command
            .get_args()
            .map(|one| one.to_string_lossy())
            .collect();
        format!("`{program} {}` failed: {why}", arguments.join(" "))
    };
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(failed(stderr.trim().lines().last().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

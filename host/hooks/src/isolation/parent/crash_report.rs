//! `hook-crash.NAME.json` in the run's directory: how a hook's process ended, with the keys of `crash.json`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::super::ending::Ending;
use crate::version::HOST_VERSION;

/// Where a hook's process ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene<'a> {
    /// Name of the mount point, or `new`, `save_state`, `load_state`, `drop`.
    pub(super) point: &'a str,
    pub(super) phase: &'a str,
    pub(super) epoch: u64,
    pub(super) iteration: u64,
}

/// Writes the report, and returns its path if that succeeded.
pub(super) fn write(
    directory: &Path,
    (hook, plugin, file): (&str, &str, &Path),
    ending: &Ending,
    scene: Scene<'_>,
    last_lines: &[String],
) -> Option<PathBuf> {
    let signal = match ending {
        Ending::Signal(signal) => Some(signal.as_str()),
        _ => None,
    };
    let seconds = match ending {
        Ending::Late(limit) => Some(limit.as_secs_f64()),
        _ => None,
    };
    let report = json!({
        "kind": ending.kind(),
        "signal": signal,
        "hook": hook,
        "plugin": plugin,
        "file": file.display().to_string(),
        "point": scene.point,
        "phase": scene.phase,
        "epoch": scene.epoch,
        "iteration": scene.iteration,
        "seconds": seconds,
        "printed": last_lines,
        "host": HOST_VERSION,
    });
    let path = path(directory, hook);
    let text = format!("{report:#}\n");
    fs_err::write(&path, text).ok().map(|()| path)
}

/// A hook's name as part of a file's name.
/// The report of a hook of this name in a directory.
pub fn path(directory: &Path, hook: &str) -> PathBuf {
    directory.join(format!("hook-crash.{}.json", file_name(hook)))
}

fn file_name(hook: &str) -> String {
    let shown = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    hook.chars().take(100).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_the_keys_of_a_crash_and_stays_in_its_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let scene = Scene {
            point: "after_iter",
            phase: "train",
            epoch: 1,
            iteration: 7,
        };
        let file = Path::new("p.so");
        let ending = Ending::Signal("SIGSEGV".to_owned());
        let path = write(
            directory.path(),
            ("../../x", "p", file),
            &ending,
            scene,
            &[],
        );
        let path = path.expect("it is written");
        assert_eq!(path.parent(), Some(directory.path()));
        let text = std::fs::read_to_string(path).expect("a file");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&report["kind"], &report["signal"]),
            (&json!("crash"), &json!("SIGSEGV"))
        );
        assert_eq!(
            (&report["hook"], &report["iteration"]),
            (&json!("../../x"), &json!(7))
        );
    }
}

//! Asks an interpreter what it is, by running `probe.py` with it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::NoInterpreter;

/// Longest time that an interpreter gets to say what it is.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// What an interpreter says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) implementation: String,
    pub(crate) version: (u32, u32),
    pub(crate) executable: String,
    pub(crate) prefix: String,
    pub(crate) library: Option<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
}

/// Runs an interpreter for its answer.
pub(crate) fn ask(path: &Path, limit: Duration) -> Result<Answer, NoInterpreter> {
    let shown = path.display();
    let failed = |what: String| NoInterpreter::new(format!("the Python at `{shown}` {what}"));
    let mut child = Command::new(path)
        .arg("-c")
        .arg(include_str!("probe.py"))
        // A `json.py` in the user's directory is not the module.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("can't be run: {error}")))?;
    let begun = Instant::now();
    // Its answer is shorter than a pipe's buffer: it can end before anything is read.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < limit => thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                // Killed and waited for, as far as that is possible; the message is about the hang.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!(
                    "has not answered after {} s",
                    limit.as_secs()
                )));
            }
            Err(error) => return Err(failed(format!("can't be waited for: {error}"))),
        }
    };
    let text = |stream: Option<&mut dyn Read>| {
        let mut text = Vec::new();
        let read = stream.map(|stream| stream.take(65536).read_to_end(&mut text));
        drop(read);
        String::from_utf8_lossy(&text).into_owned()
    };
    let errors = text(child.stderr.as_mut().map(|stream| stream as &mut dyn Read));
    if !status.success() {
        let last = errors
            .trim()
            .lines()
            .last()
            .unwrap_or("without a message")
            .to_owned();
        return Err(failed(format!("does not work ({status}): {last}")));
    }
    let answer = text(child.stdout.as_mut().map(|stream| stream as &mut dyn Read));
    // What a `sitecustomize` prints comes before.
    let line = answer.trim().lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|error| failed(format!("gave no proper answer: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that behaves as told, in place of an interpreter. Another process writes it: what a process that another
    /// test starts meanwhile inherits open for writing can't be executed.
    #[cfg(unix)]
    fn program(text: &str) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a place");
        let path = place.path().join("python3");
        let write = "printf '#!/bin/sh\n%s\n' \"$2\" >\"$1\" && chmod 755 \"$1\"";
        let written = Command::new("sh")
            .args(["-c", write, "sh"])
            .arg(&path)
            .arg(text)
            .status();
        assert!(written.expect("a shell").success());
        (place, path)
    }

    #[cfg(unix)]
    #[test]
    fn an_interpreter_that_fails_hangs_or_babbles_is_an_error() {
        for (text, limit, words) in [
            (
                "echo broken >&2; exit 3",
                60_000,
                "does not work (exit status: 3): broken",
            ),
            ("exec sleep 600", 20, "has not answered after"),
            ("echo hello", 60_000, "gave no proper answer"),
        ] {
            let (_place, path) = program(text);
            let error = ask(&path, Duration::from_millis(limit)).unwrap_err();
            assert!(error.message.contains(words), "{error:?}");
        }
    }
}

//! Runs the process of a test: starts it, watches it, and kills it after the time limit.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::child::{ANSWER, Answer, COMMAND};
use super::finding::{Finding, failed};
use super::order::{DOING, TestOrder};
use crate::diagnostic::shortened;
use crate::subprocess::{self, ending, last_lines, watch};

/// Runs a test in its own process.
///
/// # Errors
///
/// If the process can't be started.
pub(super) fn run(order: &TestOrder, limit: Duration) -> io::Result<Finding> {
    let place = &order.place;
    let errors = place.join("stderr.txt");
    let mut command = subprocess::command()?;
    command
        .arg(COMMAND)
        .current_dir(place)
        // For the same bits on every machine, and few other threads.
        .env("RAYON_NUM_THREADS", "1")
        .env("CANDLE_NUM_THREADS", "1")
        .env_remove(crate::plugin::search::VARIABLE)
        .stdin(Stdio::piped())
        .stdout(File::create(place.join("stdout.txt"))?)
        .stderr(File::create(&errors)?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // If the process has already ended, its exit status gives the reason.
        drop(input.write_all(serde_json::to_string(order)?.as_bytes()));
    }
    let status = watch(&mut child, limit)?;
    if let Some(answer) = answer(place)
        && answer.token == order.token
        && status.is_some_and(|status| status.success())
    {
        return Ok(answer.finding);
    }
    let doing = std::fs::read_to_string(place.join(DOING)).unwrap_or_default();
    let words = std::fs::read(&errors).unwrap_or_default();
    let mut text = ending(status, limit);
    if !doing.is_empty() {
        text = format!("{text} during {}", shortened(&doing));
    }
    for line in last_lines(&String::from_utf8_lossy(&words)) {
        text = format!("{text}\n  | {}", shortened(line));
    }
    Ok(failed(text))
}

fn answer(place: &Path) -> Option<Answer> {
    let text = std::fs::read_to_string(place.join(ANSWER)).ok()?;
    serde_json::from_str(&text).ok()
}

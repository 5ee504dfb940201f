//! The process of a test from outside: started, watched, and ended when its time is over.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::child::{ANSWER, Answer, COMMAND, DOING, Order};
use super::test::{Finding, failed};
use crate::diagnostic::shortened;

/// How often a process is looked after.
const LOOK: Duration = Duration::from_millis(2);

/// Of what it wrote to standard error so many lines are told.
const TOLD: usize = 8;

/// Runs a test in a process of its own.
///
/// # Errors
///
/// Where there can be none.
pub(super) fn run(order: &Order, limit: Duration) -> io::Result<Finding> {
    let place = &order.place;
    let errors = place.join("stderr.txt");
    let mut command = Command::new(executable()?);
    command
        .arg(COMMAND)
        .current_dir(place)
        // The same bits on every machine, and little else running.
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
        // One that is gone already has its reason, which its status tells.
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

/// This program's file; where it has been replaced by now, the one that this process runs.
fn executable() -> io::Result<std::path::PathBuf> {
    let own = std::env::current_exe()?;
    Ok(if own.is_file() {
        own
    } else {
        "/proc/self/exe".into()
    })
}

/// Waits for the end of a process; nothing where it had to be ended.
fn watch(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begin.elapsed() >= limit {
            break None;
        }
        std::thread::sleep(LOOK);
    };
    // What a hook has started does not outlive the test either.
    end_group(child);
    if status.is_none() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(status)
}

#[cfg(unix)]
fn end_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};

    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_group(_child: &Child) {}

fn ending(status: Option<ExitStatus>, limit: Duration) -> String {
    let Some(status) = status else {
        return format!("not done after {} s: it hung", limit.as_secs_f64());
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("crashed ({})", crate::faults::signals::name(signal));
    }
    let code = status.code().unwrap_or(-1);
    format!("the process exited with {code} without an answer")
}

fn last_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(TOLD);
    lines.get(from..).unwrap_or_default().to_vec()
}

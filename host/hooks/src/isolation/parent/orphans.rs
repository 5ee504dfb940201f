//! What a hook's process has started and left behind when it crashed: it ends with it, also what has left its process group.
//!
//! This process adopts orphans of its children (`PR_SET_CHILD_SUBREAPER`), so that they are its children then, and tells
//! whose they were by a variable of their environment, which they have from the hook's process.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitpid,
};

/// The variable that marks a hook's process, and what it starts.
pub(super) const VARIABLE: &str = "SCONCE_HOOK_PROCESS";

/// The most rounds: the children of an orphan are adopted once it has ended.
const ROUNDS: usize = 64;

/// Adopts orphans from now on, and returns the mark of another hook's process.
pub(super) fn mark() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Where the system refuses, orphans are not found.
    let _ = set_child_subreaper(Some(getpid()));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}.{number}", std::process::id())
}

/// Ends the orphans of the process with this mark.
pub(super) fn end(mark: &str) {
    let entry = format!("{VARIABLE}={mark}");
    for _ in 0..ROUNDS {
        let found: Vec<Pid> = children()
            .into_iter()
            .filter(|child| has(*child, &entry))
            .collect();
        if found.is_empty() {
            return;
        }
        for child in found {
            // The descriptor stays that of the process, whoever gets its number next; the mark is looked at again.
            let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else {
                continue;
            };
            if has(child, &entry) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
                let _ = waitpid(Some(child), WaitOptions::empty());
            }
        }
    }
}

/// Children of this process, of all its threads.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<Pid> {
        let numbers = list
            .split_whitespace()
            .filter_map(|number| number.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    lists.flat_map(numbers).collect()
}

/// Whether a process's environment has an entry.
fn has(process: Pid, entry: &str) -> bool {
    let path = format!("/proc/{}/environ", process.as_raw_nonzero());
    let environment = fs::read(Path::new(&path)).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|known| known == entry.as_bytes())
}

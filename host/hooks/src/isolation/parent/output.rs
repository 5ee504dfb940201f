//! What a hook's process prints.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// How many of the last lines a message about its end shows.
const LAST: usize = 8;

/// How many lines may wait until they are logged; older ones are dropped.
const WAITING: usize = 1000;

/// The longest line in bytes; longer ones are divided.
const LONGEST: u64 = 4096;

/// Lines that a process has printed, collected by a thread that ends with it.
#[derive(Debug, Default)]
pub(super) struct Output {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    has_waiting: AtomicBool,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<String>,
    last: VecDeque<String>,
    is_over: bool,
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        match self.lines.lock() {
            Ok(lines) => lines,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

impl Output {
    /// Begins to read from a pipe.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(super) fn of(pipe: OwnedFd) -> std::io::Result<Output> {
        let output = Output::default();
        let shared = Arc::clone(&output.shared);
        thread::Builder::new()
            .name("hook-output".to_owned())
            .spawn(move || read(pipe, &shared))?;
        Ok(output)
    }

    /// The lines that have not been taken yet.
    pub(super) fn take(&self) -> VecDeque<String> {
        if !self.shared.has_waiting.swap(false, Ordering::Acquire) {
            return VecDeque::new();
        }
        std::mem::take(&mut self.shared.lines().waiting)
    }

    /// The last lines; to be asked after the end of the process.
    pub(super) fn last(&self) -> Vec<String> {
        // The rest of the pipe is read within moments; what a grandchild keeps open is not waited for.
        for _ in 0..20 {
            if self.shared.lines().is_over {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(1));
        }
        self.shared.lines().last.iter().cloned().collect()
    }
}

fn read(pipe: OwnedFd, shared: &Shared) {
    use std::io::Read;

    let mut pipe = BufReader::new(File::from(pipe));
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match pipe.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
            Ok(length) if length > 0 => {}
            _ => break,
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() {
            continue;
        }
        let mut lines = shared.lines();
        let Lines { waiting, last, .. } = &mut *lines;
        for (list, most) in [(waiting, WAITING), (last, LAST)] {
            if list.len() == most {
                list.pop_front();
            }
            list.push_back(line.to_owned());
        }
        shared.has_waiting.store(true, Ordering::Release);
    }
    shared.lines().is_over = true;
}

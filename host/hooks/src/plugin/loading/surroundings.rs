//! Process-wide state that a library's constructors must not change.
//!
//! It is recorded before a library is opened and restored afterwards, with a message about each change: the
//! floating-point mode, the current directory, signal handlers, standard input and output, the locale, and
//! the `settings`. While the library is being opened, standard output is redirected to standard error, so
//! that text printed there does not end up among the results.

use super::change::describe_change;
use super::float_state::FloatState;

/// The process's state before a library is opened.
pub(super) struct ProcessSurroundings {
    floats: FloatState,
    #[cfg(target_os = "linux")]
    process: linux::Process,
}

impl ProcessSurroundings {
    /// Records the current state and redirects standard output to standard error.
    pub(super) fn look() -> ProcessSurroundings {
        ProcessSurroundings {
            floats: FloatState::read(),
            #[cfg(target_os = "linux")]
            process: linux::Process::look(),
        }
    }

    /// Restores everything, and describes what had changed; `when` is used in the message.
    pub(super) fn restore(self, when: &str) -> Vec<String> {
        let mut changes: Vec<String> = Vec::new();
        if self.floats.restore() {
            let what = "changed the processor's floating-point mode (denormals or rounding)";
            changes.push(describe_change(what, when, true));
        }
        #[cfg(target_os = "linux")]
        self.process.restore(when, &mut changes);
        changes
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{CStr, CString};
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;
    use std::{env, fs, mem, ptr};

    use rustix::fs::fstat;
    use rustix::io::fcntl_dupfd_cloexec;
    use rustix::stdio;

    use super::super::change::describe_change;
    use super::super::settings::ProcessSettings;
    use crate::signals;

    /// The signals whose handlers are checked; the real-time ones are left to libraries.
    const SIGNALS: std::ops::RangeInclusive<i32> = 1..=31;

    pub(super) struct Process {
        directory: Option<PathBuf>,
        handlers: Vec<(i32, libc::sigaction)>,
        locale: Option<CString>,
        threads: usize,
        settings: ProcessSettings,
        /// Copies of standard input, output and error, with the file that each refers to in the meantime.
        streams: [Option<(OwnedFd, File)>; 3],
    }

    /// Identity of an open file: device and inode.
    type File = (u64, u64);

    impl Process {
        pub(super) fn look() -> Process {
            drop(std::io::stdout().flush());
            // What a program in C has printed, too, before the stream leads elsewhere.
            // SAFETY: a null pointer asks for a flush of all output streams, which accesses no memory of ours.
            unsafe { libc::fflush(ptr::null_mut()) };
            let keep = |fd| fcntl_dupfd_cloexec(fd, 3).ok();
            let kept = [
                keep(stdio::stdin()),
                keep(stdio::stdout()),
                keep(stdio::stderr()),
            ];
            if let [_, Some(_), Some(error)] = &kept {
                let _ = stdio::dup2_stdout(error);
            }
            let mut number = 0;
            let streams = kept.map(|kept| {
                let now = file(number);
                number += 1;
                kept.zip(now)
            });
            Process {
                directory: env::current_dir().ok(),
                handlers: SIGNALS
                    .filter_map(|signal| Some((signal, handler(signal)?)))
                    .collect(),
                locale: locale(),
                threads: threads(),
                settings: ProcessSettings::look(),
                streams,
            }
        }

        pub(super) fn restore(self, when: &str, changes: &mut Vec<String>) {
            // Restored first: the limit on open files may be among the settings.
            self.settings.restore(when, changes);
            self.restore_streams(when, changes);
            let Process {
                directory,
                handlers,
                locale: before,
                threads: count,
                ..
            } = self;
            if let Some(directory) = directory
                && env::current_dir().ok().as_ref() != Some(&directory)
            {
                let undone = env::set_current_dir(directory);
                changes.push(describe_change(
                    "changed the current directory",
                    when,
                    undone.is_ok(),
                ));
            }
            for (signal, before) in handlers {
                if handler(signal).is_some_and(|now| now.sa_sigaction != before.sa_sigaction) {
                    // SAFETY: `before` is an action read from the system; the old action is not requested.
                    let undone =
                        unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
                    let name = signals::name(signal);
                    changes.push(describe_change(
                        &format!("took over the signal {name}"),
                        when,
                        undone == 0,
                    ));
                }
            }
            if let Some(before) = before
                && locale().is_some_and(|now| now != before)
            {
                // SAFETY: `before` is a NUL-terminated string that the C library returned for the same
                // category.
                let undone = unsafe { libc::setlocale(libc::LC_ALL, before.as_ptr()) };
                changes.push(describe_change(
                    "changed the locale",
                    when,
                    !undone.is_null(),
                ));
            }
            let more = threads().saturating_sub(count);
            if more > 0 {
                let noun = if more == 1 { "thread" } else { "threads" };
                changes.push(format!("started {more} {noun} {when}"));
            }
        }

        fn restore_streams(&self, when: &str, changes: &mut Vec<String>) {
            // Text that C code has buffered so far goes where it was printed to.
            // SAFETY: a null pointer asks for a flush of all output streams, which accesses no memory of
            // ours.
            unsafe { libc::fflush(ptr::null_mut()) };
            let names = ["standard input", "standard output", "standard error"];
            for ((number, name), kept) in (0..).zip(names).zip(&self.streams) {
                let Some((kept, meanwhile)) = kept else {
                    continue;
                };
                let is_changed = file(number) != Some(*meanwhile);
                let undone = match number {
                    0 if is_changed => stdio::dup2_stdin(kept),
                    1 => stdio::dup2_stdout(kept),
                    2 if is_changed => stdio::dup2_stderr(kept),
                    _ => Ok(()),
                };
                if is_changed {
                    changes.push(describe_change(
                        &format!("closed or replaced {name}"),
                        when,
                        undone.is_ok(),
                    ));
                }
            }
        }
    }

    fn file(number: i32) -> Option<File> {
        let stream = match number {
            0 => stdio::stdin(),
            1 => stdio::stdout(),
            _ => stdio::stderr(),
        };
        let file = fstat(stream).ok()?;
        Some((file.st_dev, file.st_ino))
    }

    fn handler(signal: i32) -> Option<libc::sigaction> {
        // SAFETY: `sigaction` is made of integers and nullable pointers, for which zero is a valid value.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: without a new action this only writes the current one to `action`, which is valid for
        // writes.
        let read = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
        (read == 0).then_some(action)
    }

    /// The C library's locale string for all categories.
    fn locale() -> Option<CString> {
        // SAFETY: a null locale only queries; the returned string is NUL-terminated, stays valid until the
        // next call, and is copied at once.
        unsafe {
            let name = libc::setlocale(libc::LC_ALL, ptr::null());
            (!name.is_null()).then(|| CStr::from_ptr(name).to_owned())
        }
    }

    fn threads() -> usize {
        fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
    }
}

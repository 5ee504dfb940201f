//! Process-wide state that a hook's call must not change: the floating-point mode, which affects
//! every computation of the run, the current directory, and what signals do.

use crate::plugin::float_state::{FloatState, Rounding};

/// Process-wide state to which every call must return.
#[derive(Debug)]
pub(super) struct ProcessState {
    floats: FloatState,
    rounding: Rounding,
    directory: directory::Directory,
    handlers: handlers::Handlers,
}

impl ProcessState {
    /// Reads the current state.
    pub(super) fn look() -> ProcessState {
        ProcessState {
            floats: FloatState::read(),
            rounding: Rounding::compute(),
            directory: directory::Directory::look(),
            handlers: handlers::Handlers::look(),
        }
    }

    /// As [`look`](ProcessState::look), of a process that belongs to another program: its directory and what signals do are that one's
    /// to change at any time, and are not looked at.
    pub(super) fn look_as_guest() -> ProcessState {
        ProcessState {
            floats: FloatState::read(),
            rounding: Rounding::compute(),
            directory: directory::Directory::ignored(),
            handlers: handlers::Handlers::ignored(),
        }
    }

    /// Whether the last call changed the floating-point mode so that results change.
    #[inline]
    pub(super) fn has_other_results(&self) -> bool {
        Rounding::compute() != self.rounding
    }

    /// Whether the floating-point mode has changed in any way; takes as long as the call of a hook.
    pub(super) fn has_other_floats(&self) -> bool {
        FloatState::read() != self.floats
    }

    /// Whether the current directory or what signals do has changed; makes some ten system calls.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.directory.is_changed() || self.handlers.are_changed()
    }

    /// Restores everything, and describes what had changed.
    #[cold]
    pub(super) fn restore(&self) -> Vec<&'static str> {
        let mut changes = Vec::new();
        let has_other_results = self.has_other_results();
        if self.floats.restore() {
            changes.push(if has_other_results {
                "changed the processor's floating-point mode (denormals or rounding)"
            } else {
                "unmasked floating-point exceptions (or a hook called shortly before did)"
            });
        }
        if self.directory.is_changed() && self.directory.restore() {
            changes.push("changed the current directory (or a hook called shortly before did)");
        }
        if self.handlers.are_changed() && self.handlers.restore() {
            changes
                .push("took over a signal that is the run's (or a hook called shortly before did)");
        }
        changes
    }
}

#[cfg(unix)]
mod handlers {
    use std::mem;
    use std::ptr;

    /// Signals by which a run is stopped, and those by which its crash is reported.
    const SIGNALS: [libc::c_int; 9] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGABRT,
    ];

    /// What signals do.
    pub(super) struct Handlers(Vec<(libc::c_int, libc::sigaction)>);

    impl std::fmt::Debug for Handlers {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Handlers").finish_non_exhaustive()
        }
    }

    impl Handlers {
        pub(super) fn ignored() -> Handlers {
            Handlers(Vec::new())
        }

        pub(super) fn look() -> Handlers {
            let known = |signal| Some((signal, action(signal)?));
            Handlers(SIGNALS.into_iter().filter_map(known).collect())
        }

        pub(super) fn are_changed(&self) -> bool {
            let mut known = self.0.iter();
            known.any(|(signal, before)| differs(*signal, before))
        }

        /// Puts them back; returns whether the system let it.
        pub(super) fn restore(&self) -> bool {
            let changed = self
                .0
                .iter()
                .filter(|(signal, before)| differs(*signal, before));
            let mut restored = changed.map(|(signal, before)| {
                // SAFETY: `before` is an action read from the system, whose handler was never unloaded; the old one is not
                // requested.
                unsafe { libc::sigaction(*signal, before, ptr::null_mut()) }
            });
            restored.all(|result| result == 0)
        }
    }

    fn differs(signal: libc::c_int, before: &libc::sigaction) -> bool {
        action(signal).is_some_and(|now| now.sa_sigaction != before.sa_sigaction)
    }

    fn action(signal: libc::c_int) -> Option<libc::sigaction> {
        // SAFETY: a structure of integers and pointers, for which all zeros are valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: no action is set, and there is room for the present one.
        let read = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
        (read == 0).then_some(action)
    }
}

#[cfg(not(unix))]
mod handlers {
    /// What signals do, which is not checked on this system.
    #[derive(Debug)]
    pub(super) struct Handlers;

    impl Handlers {
        pub(super) fn ignored() -> Handlers {
            Handlers
        }

        pub(super) fn look() -> Handlers {
            Handlers
        }

        pub(super) fn are_changed(&self) -> bool {
            false
        }

        pub(super) fn restore(&self) -> bool {
            false
        }
    }
}

#[cfg(target_os = "linux")]
mod directory {
    use std::os::fd::OwnedFd;

    use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat, stat};
    use rustix::process::fchdir;

    /// Current directory, kept open.
    #[derive(Debug)]
    pub(super) struct Directory {
        kept: Option<(OwnedFd, (u64, u64))>,
    }

    fn number(stat: &Stat) -> (u64, u64) {
        (stat.st_dev, stat.st_ino)
    }

    impl Directory {
        pub(super) fn ignored() -> Directory {
            Directory { kept: None }
        }

        pub(super) fn look() -> Directory {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let kept = openat(CWD, ".", flags, Mode::empty()).ok();
            let kept = kept.and_then(|file| {
                let number = number(&fstat(&file).ok()?);
                Some((file, number))
            });
            Directory { kept }
        }

        pub(super) fn is_changed(&self) -> bool {
            let Some((_, before)) = &self.kept else {
                return false;
            };
            stat(".").is_ok_and(|now| number(&now) != *before)
        }

        pub(super) fn restore(&self) -> bool {
            let kept = self.kept.as_ref();
            kept.is_some_and(|(kept, _)| fchdir(kept).is_ok())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod directory {
    /// Current directory, which is not checked on this system.
    #[derive(Debug)]
    pub(super) struct Directory;

    impl Directory {
        pub(super) fn ignored() -> Directory {
            Directory
        }

        pub(super) fn look() -> Directory {
            Directory
        }

        pub(super) fn is_changed(&self) -> bool {
            false
        }

        pub(super) fn restore(&self) -> bool {
            false
        }
    }
}

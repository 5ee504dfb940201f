//! Process-wide state that a hook's call must not change: the floating-point mode, which affects
//! every computation of the run, and the current directory.

use crate::plugin::float_state::{FloatState, Rounding};

/// Process-wide state to which every call must return.
#[derive(Debug)]
pub(super) struct ProcessState {
    floats: FloatState,
    rounding: Rounding,
    directory: directory::Directory,
}

impl ProcessState {
    /// Reads the current state.
    pub(super) fn look() -> ProcessState {
        ProcessState {
            floats: FloatState::read(),
            rounding: Rounding::compute(),
            directory: directory::Directory::look(),
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

    /// Whether the current directory has changed; makes a system call.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.directory.is_changed()
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
        changes
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

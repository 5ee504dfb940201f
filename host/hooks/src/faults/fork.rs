//! Detection of forked copies of this process: a plugin may fork, but a copy must not continue with the host's
//! code.
//!
//! It would write to the same files as the run itself. The kernel clears the marked page in every child,
//! however it was forked, so one read of it tells the two apart: cheap enough for every call of a hook. Where
//! libraries are opened, which may be long before a run, process IDs are compared instead.

#[cfg(target_os = "linux")]
mod imp {
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    /// Stands in for the marked page until there is one.
    static HERE: AtomicU8 = AtomicU8::new(1);

    /// Points to 1 in this process and to 0 in a forked one.
    static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::from_ref(&HERE).cast_mut());

    /// Smallest size of a page.
    const PAGE: usize = 4096;

    pub(crate) fn watch() -> std::io::Result<()> {
        if MARK.load(Ordering::Acquire) != ptr::from_ref(&HERE).cast_mut() {
            return Ok(());
        }
        // SAFETY: a new mapping that nothing else uses, and which is never unmapped.
        let page = unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            let page = mmap_anonymous(ptr::null_mut(), PAGE, flags, MapFlags::PRIVATE)?;
            madvise(page, PAGE, Advice::LinuxWipeOnFork)?;
            page.cast::<AtomicU8>()
        };
        // SAFETY: the page was just mapped as writable, and an `AtomicU8` needs no alignment.
        unsafe { (*page).store(1, Ordering::Relaxed) };
        MARK.store(page, Ordering::Release);
        Ok(())
    }

    /// Distinguishes this process from its forked copies.
    #[derive(Clone, Copy)]
    pub(crate) struct Mark(&'static AtomicU8);

    #[inline]
    pub(crate) fn mark() -> Mark {
        // SAFETY: points to the static or to the page, and both live as long as the process.
        Mark(unsafe { &*MARK.load(Ordering::Relaxed) })
    }

    impl Mark {
        /// Ends this process if it is a forked copy.
        #[inline]
        pub(crate) fn check(self) {
            if self.0.load(Ordering::Relaxed) == 0 {
                stop();
            }
        }
    }

    /// ID of the process that is about to run a plugin's code.
    #[derive(Clone, Copy)]
    pub(crate) struct Origin(u32);

    impl Origin {
        pub(crate) fn here() -> Origin {
            Origin(std::process::id())
        }

        /// Ends this process if it is a copy of the recorded one.
        pub(crate) fn check(self) {
            if std::process::id() != self.0 {
                stop();
            }
        }
    }

    /// Ends a forked process that returned from a plugin's code.
    #[cold]
    #[inline(never)]
    fn stop() -> ! {
        let words = "sconce: a process that a plugin forked came back from the plugin's code: it ends \
                     here, the host continues without it\n";
        // Not through std, whose locks another thread may have held when the process was forked.
        // SAFETY: `write` gets the pointer and length of a live string; `_exit` has no preconditions.
        unsafe {
            libc::write(2, words.as_ptr().cast(), words.len());
            libc::_exit(i32::from(crate::exit::CRASH))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    pub(crate) fn watch() -> std::io::Result<()> {
        Ok(())
    }

    /// Forked copies are not detected on this system.
    #[derive(Clone, Copy)]
    pub(crate) struct Mark;

    #[inline]
    pub(crate) fn mark() -> Mark {
        Mark
    }

    /// Forked copies are not detected on this system.
    #[derive(Clone, Copy)]
    pub(crate) struct Origin;

    impl Origin {
        pub(crate) fn here() -> Origin {
            Origin
        }

        pub(crate) fn check(self) {}
    }

    impl Mark {
        #[inline]
        pub(crate) fn check(self) {}
    }
}

pub(crate) use imp::{Origin, mark, watch};

//! Copies of this process: a plugin may fork, but a copy never goes on with the host's code.
//!
//! It would write to the same files as the run itself. The kernel empties the marked page in every
//! child, whichever way it was forked, so one look at it tells the two apart: cheap enough for every call of a
//! hook. Where libraries are opened, which may be long before a run, the process's number is compared.

#[cfg(target_os = "linux")]
mod imp {
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    /// What is there where there is no marked page.
    static HERE: AtomicU8 = AtomicU8::new(1);

    /// 1 in this process, 0 in a forked one.
    static MARK: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::from_ref(&HERE).cast_mut());

    /// One page is enough, and the smallest that there is.
    const PAGE: usize = 4096;

    pub(crate) fn watch() -> std::io::Result<()> {
        if MARK.load(Ordering::Acquire) != ptr::from_ref(&HERE).cast_mut() {
            return Ok(());
        }
        // SAFETY: a fresh mapping of its own, which is never unmapped.
        let page = unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            let page = mmap_anonymous(ptr::null_mut(), PAGE, flags, MapFlags::PRIVATE)?;
            madvise(page, PAGE, Advice::LinuxWipeOnFork)?;
            page.cast::<AtomicU8>()
        };
        // SAFETY: the page is there, and a byte has no alignment.
        unsafe { (*page).store(1, Ordering::Relaxed) };
        MARK.store(page, Ordering::Release);
        Ok(())
    }

    /// Tells this process from its forked copies.
    #[derive(Clone, Copy)]
    pub(crate) struct Mark(&'static AtomicU8);

    #[inline]
    pub(crate) fn mark() -> Mark {
        // SAFETY: leads to the static or to the page, both of which stay.
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

    /// The process that is about to run a plugin's code.
    #[derive(Clone, Copy)]
    pub(crate) struct Origin(u32);

    impl Origin {
        pub(crate) fn here() -> Origin {
            Origin(std::process::id())
        }

        /// Ends this process if it is a copy of that one.
        pub(crate) fn check(self) {
            if std::process::id() != self.0 {
                stop();
            }
        }
    }

    /// Ends a forked process that came back from a plugin's code.
    #[cold]
    #[inline(never)]
    fn stop() -> ! {
        let words = "sconce: a process that a plugin forked came back from the plugin's code: it ends \
                     here, the host continues without it\n";
        // Not by way of std, whose locks another thread may have held at the fork.
        // SAFETY: writes bytes that are there; ends this process without running anything more of it.
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

    /// Forked copies are not told from this process on this system.
    #[derive(Clone, Copy)]
    pub(crate) struct Mark;

    #[inline]
    pub(crate) fn mark() -> Mark {
        Mark
    }

    /// The process that is about to run a plugin's code.
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

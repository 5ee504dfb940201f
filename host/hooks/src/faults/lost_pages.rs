//! Second line of defence behind the seals of shared memory: a page that is gone ends no run.
//!
//! Touching a page of a mapped file raises SIGBUS if the file no longer has it, or the system can't provide it (memory is
//! full or damaged). The handler replaces such a page by one of zeros if it is in a watched range, marks the range as broken,
//! and lets the access happen. Whoever watches the range asks for the mark before it uses what it has read. All other faults
//! go to the handler that was there before, and the one that reports crashes asks [`replace_page`] first.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Most ranges that are watched at a time: two for each hook in a process of its own. More of them are not watched.
const MOST: usize = 512;

/// A watched range of addresses, or room for one. Written by whoever watches it, and read by the handler.
#[derive(Debug)]
struct Range {
    /// The first address; [`FREE`] or [`TAKEN`] if there is none.
    begin: AtomicUsize,
    end: AtomicUsize,
    is_broken: AtomicBool,
}

/// No range.
const FREE: usize = 0;
/// A range whose end is not set yet. No mapping begins at this address.
const TAKEN: usize = 1;

static RANGES: [Range; MOST] = [const {
    Range {
        begin: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        is_broken: AtomicBool::new(false),
    }
}; MOST];

/// What SIGBUS did before; never freed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Size of a page in bytes, which the handler must not look up.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// Watches a range of addresses until it is dropped, which must be before something else is mapped there.
#[derive(Debug)]
pub(crate) struct WatchedRange(&'static Range);

impl WatchedRange {
    /// Watches `length` bytes from the address `begin` on, a page's first; `None` if there is no room for another range.
    pub(crate) fn new(begin: usize, length: usize) -> Option<WatchedRange> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let end = begin.checked_add(length)?;
        let range = RANGES.iter().find(|range| {
            let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = range.begin.compare_exchange(FREE, TAKEN, order, failed);
            taken.is_ok()
        })?;
        range.end.store(end, Ordering::Relaxed);
        range.is_broken.store(false, Ordering::Relaxed);
        range.begin.store(begin, Ordering::Release);
        Some(WatchedRange(range))
    }

    /// Whether a page of it was gone when it was touched.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        self.0.begin.store(FREE, Ordering::Release);
    }
}

/// Installs the handler. Without it, SIGBUS does what it did.
fn install() {
    PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
    // SAFETY: `sigaction` consists of integers and pointers, for which all zeros are valid.
    let [mut before, mut action]: [libc::sigaction; 2] = unsafe { mem::zeroed() };
    // SAFETY: no action is set, and there is room for the present one.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return;
    }
    // First of all, since the handler may run at once.
    BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    action.sa_sigaction = on_sigbus as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: the handler has the signature that `SA_SIGINFO` requires, and `action` is initialised.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, machine: *mut c_void) {
    // SAFETY: the system has passed `info` to this handler; all pointers are passed on as they came.
    unsafe {
        if !replace_page(info) {
            pass_on(signal, info, machine);
        }
    }
}

/// Replaces the page whose absence raised SIGBUS if it is in a watched range; returns whether the access can be tried again.
/// Async-signal-safe.
///
/// # Safety
///
/// `info` must be what the system passed to a handler of SIGBUS.
pub(crate) unsafe fn replace_page(info: *const libc::siginfo_t) -> bool {
    // SAFETY: null or valid, by the caller's guarantee.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return false;
    };
    // One that a process has sent has no address.
    if info.si_code <= libc::SI_USER {
        return false;
    }
    // SAFETY: the kernel has raised the signal, for an access to this address.
    let address = unsafe { info.si_addr() } as usize;
    let Some(range) = RANGES.iter().find(|range| {
        let begin = range.begin.load(Ordering::Acquire);
        let is_there = begin > TAKEN && begin <= address;
        is_there && address < range.end.load(Ordering::Relaxed)
    }) else {
        return false;
    };
    range.is_broken.store(true, Ordering::Relaxed);
    let page = PAGE.load(Ordering::Relaxed);
    let begin = address - address % page;
    // SAFETY: the page is one of the mapping that the range's owner is accessing just now, so nothing else can be mapped
    // there; what was in it is gone.
    let replaced = unsafe {
        mmap_anonymous(
            ptr::without_provenance_mut(begin),
            page,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::FIXED,
        )
    };
    replaced.is_ok()
}

/// Does what SIGBUS did before.
///
/// # Safety
///
/// The arguments must be those of the handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, machine: *mut c_void) {
    type Simple = extern "C" fn(c_int);
    type Detailed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    // SAFETY: set before the handler was installed, never freed, and only read.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    let action = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if action == libc::SIG_DFL || action == libc::SIG_IGN {
        // An access is tried again and then ends the process, as the kernel has it also where the signal is ignored.
        // SAFETY: these calls are async-signal-safe and take no pointers; `info` is null or valid.
        unsafe {
            let is_sent = info
                .as_ref()
                .is_some_and(|info| info.si_code <= libc::SI_USER);
            if action == libc::SIG_DFL || !is_sent {
                libc::signal(signal, libc::SIG_DFL);
            }
            if action == libc::SIG_DFL && is_sent {
                libc::raise(signal);
            }
        }
    } else if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
        // SAFETY: the address of a handler with this signature, by its flag.
        let handler: Detailed = unsafe { mem::transmute(action) };
        handler(signal, info, machine);
    } else {
        // SAFETY: the address of a handler with this signature, by its flag.
        let handler: Simple = unsafe { mem::transmute(action) };
        handler(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{mmap, munmap};

    use super::*;

    /// Set for the process in which the second test's handler ends.
    const INSIDE: &str = "SCONCE_TEST_SIGBUS";

    const PAGES: usize = 4;

    /// A mapping of a file that can be cut.
    fn mapped() -> (OwnedFd, *mut u8, usize) {
        let page = rustix::param::page_size();
        let file = memfd_create("sconce-test", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, (PAGES * page) as u64).expect("its size");
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let nowhere = ptr::null_mut();
        // SAFETY: a new mapping, at an address that the system chooses.
        let memory = unsafe { mmap(nowhere, PAGES * page, rights, MapFlags::SHARED, &file, 0) }
            .expect("mapped");
        (file, memory.cast(), page)
    }

    #[test]
    fn a_page_that_is_gone_reads_as_zero_and_marks_its_range_alone() {
        let (file, memory, page) = mapped();
        let (_other_file, other, _) = mapped();
        let length = PAGES * page;
        let range = WatchedRange::new(memory as usize, length).expect("room");
        let other_range = WatchedRange::new(other as usize, length).expect("room");
        // SAFETY: within the mapping, which this test alone uses.
        unsafe { memory.write_bytes(7, length) };
        assert!(!range.is_broken());
        ftruncate(&file, page as u64).expect("cut");
        // SAFETY: as above; pages that are gone are replaced.
        let read = unsafe {
            memory.add(length - 1).write_volatile(5);
            [0, page, length - 1].map(|offset| memory.add(offset).read_volatile())
        };
        assert_eq!(read, [7, 0, 5]);
        assert!(range.is_broken());
        assert!(!other_range.is_broken());
        drop((range, other_range));
        // SAFETY: nothing uses the mappings any more.
        unsafe {
            munmap(memory.cast(), length).expect("unmapped");
            munmap(other.cast(), length).expect("unmapped");
        }
    }

    extern "C" fn end_with_42(_signal: c_int) {
        // SAFETY: it has no preconditions.
        unsafe { libc::_exit(42) }
    }

    #[test]
    fn a_fault_elsewhere_reaches_the_handler_that_was_there_before() {
        const NAME: &str = "faults::lost_pages::tests::a_fault_elsewhere_reaches_the_handler_that_was_there_before";
        if std::env::var_os(INSIDE).is_none() {
            let program = std::env::current_exe().expect("this program");
            let status = Command::new(program)
                .args(["--exact", NAME, "--test-threads=1"])
                .env(INSIDE, "1")
                .output()
                .expect("started")
                .status;
            assert_eq!(status.code(), Some(42), "{status}");
            return;
        }
        // SAFETY: the handler has the signature of those without `SA_SIGINFO`.
        unsafe { libc::signal(libc::SIGBUS, end_with_42 as *const () as usize) };
        let (watched, memory, page) = mapped();
        let (file, other, _) = mapped();
        let range = WatchedRange::new(memory as usize, PAGES * page).expect("room");
        for file in [&watched, &file] {
            ftruncate(file, 0).expect("cut");
        }
        // SAFETY: the page is replaced.
        let read = unsafe { memory.read_volatile() };
        assert!(read == 0 && range.is_broken());
        drop(range);
        // SAFETY: none: it ends this process.
        unsafe { other.read_volatile() };
        // The other process expects another code.
    }
}

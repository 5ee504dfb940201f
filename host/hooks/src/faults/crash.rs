//! Handlers for fatal signals and for `exit` during a run: they report the hook being called and
//! end the process with exit code 5.

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{io, mem, ptr};

use super::expected;
use super::lost_pages::replace_page;
use super::report::{self, FaultKind, ProcessEnd, ReportText};
use super::suspects::Suspects;
use super::trail::Trail;
use crate::exit;
use crate::hook_id::HookId;
use crate::signals;

/// Environment variable that requests a core file in addition to the report.
pub const CORE: &str = "SCONCE_CORE";

/// Signals that mean a crash.
const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
];

/// Size in bytes of the handlers' stack, used after a stack overflow: room for a report and more.
const STACK: usize = 128 * 1024;

/// Everything that a handler needs; never freed.
struct SignalContext {
    pid: libc::pid_t,
    /// Thread on which hooks are called.
    thread: libc::pid_t,
    trail: &'static Trail,
    suspects: Suspects,
    /// Path of the report, and its temporary path until it is complete.
    report: CString,
    part: CString,
    /// Code of the plugins: start address, end address, index of the plugin's first hook.
    code: Vec<(usize, usize, HookId)>,
    wants_core: bool,
}

/// The stack is searched for a plugin's code in at most `PIECES` chunks of `PIECE` bytes.
const PIECE: usize = 4096;
const PIECES: usize = 16;

impl SignalContext {
    /// Plugin whose code contains an address, as the index of its first hook.
    fn plugin_at(&self, address: usize) -> Option<HookId> {
        let mut code = self.code.iter();
        let found = code.find(|(from, to, _)| (*from..*to).contains(&address));
        found.map(|(_, _, hook)| *hook)
    }

    /// Plugin whose code called the function that crashed: the innermost address on the stack that lies in a
    /// plugin's code. The stack may be damaged or end here, so the kernel copies it, which then fails with an
    /// error.
    fn caller(&self, stack: usize) -> Option<HookId> {
        const WORD: usize = size_of::<usize>();
        let mut words = [0_usize; PIECE / WORD];
        let mut from = stack.next_multiple_of(WORD);
        for _ in 0..PIECES {
            let wanted = PIECE - from % PIECE;
            let here = libc::iovec {
                iov_base: words.as_mut_ptr().cast(),
                iov_len: wanted,
            };
            let there = libc::iovec {
                iov_base: from as *mut c_void,
                iov_len: wanted,
            };
            // SAFETY: the kernel writes at most `wanted` bytes to `words`, which is that large; it reports
            // an unreadable source address as an error.
            let read = unsafe {
                libc::process_vm_readv(self.pid, &raw const here, 1, &raw const there, 1, 0)
            };
            let count = usize::try_from(read).unwrap_or(0) / WORD;
            let copied = words.get(..count).unwrap_or_default();
            if let Some(hook) = copied.iter().find_map(|word| self.plugin_at(*word)) {
                return Some(hook);
            }
            if count * WORD < wanted {
                return None;
            }
            from += wanted;
        }
        None
    }
}

static CONTEXT: AtomicPtr<SignalContext> = AtomicPtr::new(ptr::null_mut());

/// Whether a report is being written; further failures are not reported.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Installs the handlers for crashes and exits. Must be called on the thread that calls the hooks.
pub(super) fn install(
    trail: &'static Trail,
    suspects: Suspects,
    directory: &Path,
) -> io::Result<()> {
    let report = directory.join("crash.json");
    let part = directory.join(".crash.json.part");
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    // SAFETY: `getpid` has no preconditions.
    let (pid, thread) = (unsafe { libc::getpid() }, thread_id());
    let context = SignalContext {
        pid,
        thread,
        trail,
        code: code_of(&suspects),
        suspects,
        report: path(&report)?,
        part: path(&part)?,
        wants_core: std::env::var_os(CORE).is_some_and(|value| value == "1"),
    };
    IS_TOLD.store(false, Ordering::SeqCst);
    let is_first = CONTEXT
        .swap(Box::into_raw(Box::new(context)), Ordering::SeqCst)
        .is_null();
    alternate_stack()?;
    for signal in SIGNALS {
        // SAFETY: `sigaction` consists of integers and pointers, for which all zeros are valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that `SA_SIGINFO` requires, and `action` is
        // initialised.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if is_first {
        // SAFETY: `on_exit` belongs to this program's code, which is never unloaded.
        let failed = unsafe { libc::atexit(on_exit) != 0 || at_quick_exit(on_exit) != 0 };
        if failed {
            return Err(io::Error::other("`atexit` has no room"));
        }
    }
    Ok(())
}

unsafe extern "C" {
    /// The C11 function.
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// Sets up a stack for the handlers, since the thread's own may have overflowed.
fn alternate_stack() -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: the handlers' stack is a new mapping of `STACK` bytes, which nothing else uses and
    // which is never unmapped.
    unsafe {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let stack = libc::stack_t {
            ss_sp: mmap_anonymous(ptr::null_mut(), STACK, flags, MapFlags::PRIVATE)?,
            ss_flags: 0,
            ss_size: STACK,
        };
        if libc::sigaltstack(&raw const stack, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Address ranges of the plugins' code.
fn code_of(suspects: &Suspects) -> Vec<(usize, usize, HookId)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut code = Vec::new();
    let mut seen: Vec<&Path> = Vec::new();
    for (position, suspect) in suspects.hooks.iter().enumerate() {
        if seen.contains(&suspect.loaded.as_path()) {
            continue;
        }
        seen.push(&suspect.loaded);
        // A file in memory is listed as `/memfd:NAME (deleted)`, and two may have the same name;
        // the inode tells them apart.
        let Ok(file) = rustix::fs::stat(&suspect.loaded) else {
            continue;
        };
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(range), Some(access)) = (words.next(), words.next()) else {
                continue;
            };
            let inode = words.nth(2).and_then(|word| word.parse::<u64>().ok());
            let range = range.split_once('-').and_then(|(from, to)| {
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some((number(from)?, number(to)?))
            });
            if let Some((from, to)) = range
                && access.contains('x')
                && inode == Some(file.st_ino)
            {
                code.push((from, to, HookId::at(position)));
            }
        }
    }
    code
}

/// Handler of [`SIGNALS`].
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, machine: *mut c_void) {
    // A page of the memory that is shared with a hook's process is that hook's fault.
    // SAFETY: `info` is what the system passed to this handler.
    if signal == libc::SIGBUS && unsafe { replace_page(info) } {
        return;
    }
    // SAFETY: the context was leaked when it was installed and is only read, so the pointer is null
    // or valid.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        default_action(signal)
    };
    // A forked process is not part of the run.
    // SAFETY: `getpid` has no preconditions and is async-signal-safe.
    if unsafe { libc::getpid() } != context.pid {
        default_action(signal);
    }
    if IS_TOLD.swap(true, Ordering::SeqCst) {
        // A crash during a report: in another thread, or in the reporting itself.
        if thread_id() == context.thread {
            end();
        }
        loop {
            // SAFETY: `pause` has no preconditions; the reporting thread ends the process.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: `info` and `machine` are what the system passed to this handler.
    let (address, place) = unsafe { (address_of(info), FaultRegisters::read(machine)) };
    let on_training_thread = thread_id() == context.thread;
    let library = place.and_then(|place| context.plugin_at(place.instruction));
    // During a hook's call the report names the hook anyway; otherwise only the stack shows whose
    // code it was.
    let is_unnamed = !on_training_thread || !context.trail.is_calling();
    let caller = place
        .filter(|_| library.is_none() && is_unnamed)
        .and_then(|place| context.caller(place.stack));
    report_crash(
        context,
        &ProcessEnd {
            kind: FaultKind::Crash,
            signal: signals::known(signal),
            stack_overflow: signal == libc::SIGSEGV
                && place.is_some_and(|place| place.is_overflow(address)),
            on_training_thread,
            library: library.or(caller),
            is_called: caller.is_some(),
            seconds: None,
        },
    );
    if context.wants_core {
        leave_core(signal);
    }
    end()
}

/// Number of the calling thread; async-signal-safe. A system call, because glibc has `gettid` only since 2.30.
fn thread_id() -> libc::pid_t {
    // SAFETY: the call has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Runs when the process exits through `exit` or `quick_exit`.
extern "C" fn on_exit() {
    // SAFETY: the context was leaked when it was installed and is only read, so the pointer is null
    // or valid.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        return;
    };
    // SAFETY: `getpid` has no preconditions.
    let is_own = unsafe { libc::getpid() } == context.pid;
    let is_fault = is_own && context.trail.is_running() && !expected::is_expected();
    if !is_fault || IS_TOLD.swap(true, Ordering::SeqCst) {
        return;
    }
    report_crash(
        context,
        &ProcessEnd {
            kind: FaultKind::Exit,
            signal: None,
            stack_overflow: false,
            on_training_thread: thread_id() == context.thread,
            library: None,
            is_called: false,
            seconds: None,
        },
    );
    end()
}

/// Reports a hang found by the watchdog; false if another report is already being written.
pub(super) fn tell_hang(seconds: u64) -> bool {
    // SAFETY: the context was leaked when it was installed and is only read, so the pointer is null
    // or valid.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        return false;
    };
    if IS_TOLD.swap(true, Ordering::SeqCst) {
        return false;
    }
    report_crash(
        context,
        &ProcessEnd {
            kind: FaultKind::Hang,
            signal: None,
            stack_overflow: false,
            on_training_thread: true,
            library: None,
            is_called: false,
            seconds: Some(seconds),
        },
    );
    true
}

/// Prints the message and writes the report.
fn report_crash(context: &SignalContext, end: &ProcessEnd) {
    // Restores the terminal for the message.
    super::terminal::give_back();
    let mut text = ReportText::new();
    report::message(&mut text, end, context.trail, &context.suspects);
    // SAFETY: `write_all` accepts any descriptor; if standard error is closed, the message is lost.
    unsafe { write_all(2, text.bytes()) };
    let is_written = write_report(context, end);
    let mut text = ReportText::new();
    report::message_end(&mut text, end, context.trail, &context.suspects, is_written);
    // SAFETY: `write_all` accepts any descriptor; if standard error is closed, the message is lost.
    unsafe { write_all(2, text.bytes()) };
}

/// Writes `crash.json`; returns whether it is in place.
fn write_report(context: &SignalContext, end: &ProcessEnd) -> bool {
    let mut text = ReportText::new();
    report::json(&mut text, end, context.trail, &context.suspects);
    // SAFETY: the paths are null-terminated and live as long as the context, and all calls are
    // async-signal-safe.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let file = libc::open(context.part.as_ptr(), flags, 0o644);
        if file >= 0 {
            let written = write_all(file, text.bytes()) && libc::fsync(file) == 0;
            libc::close(file);
            return written && libc::rename(context.part.as_ptr(), context.report.as_ptr()) == 0;
        }
    }
    false
}

/// # Safety
///
/// None: any descriptor is allowed, and a closed one gives false.
unsafe fn write_all(file: c_int, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: pointer and length describe `rest`.
        let written = unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}

/// Ends the process at once, without running destructors or exit handlers.
fn end() -> ! {
    // SAFETY: `_exit` has no preconditions and is async-signal-safe.
    unsafe { libc::_exit(i32::from(exit::CRASH)) }
}

/// Applies the signal's default action.
fn default_action(signal: c_int) -> ! {
    // SAFETY: these calls are async-signal-safe and take no pointers; the signal is not blocked, so
    // `raise` delivers it.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}

/// Writes a core file from a forked process with the same memory, so that this one keeps its exit
/// code.
fn leave_core(signal: c_int) {
    // SAFETY: `clone` is called directly because `fork` runs handlers and takes locks. The child
    // only ends itself.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            default_action(signal);
        }
        if let Ok(child) = libc::pid_t::try_from(child)
            && child > 0
        {
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
}

/// # Safety
///
/// `info` must be what the system passed to a signal handler.
unsafe fn address_of(info: *mut libc::siginfo_t) -> usize {
    // SAFETY: the caller promises that `info` is what the system passed to a signal handler, so it
    // is null or valid.
    unsafe { info.as_ref() }.map_or(0, |info| {
        // SAFETY: the field is an address for all faults, and some other number if a process sent
        // the signal; both are valid.
        unsafe { info.si_addr() as usize }
    })
}

/// Instruction and stack pointer of the thread when the signal arrived.
#[derive(Clone, Copy)]
struct FaultRegisters {
    instruction: usize,
    stack: usize,
}

impl FaultRegisters {
    /// # Safety
    ///
    /// `machine` must be what the system passed to a signal handler.
    #[cfg(target_arch = "x86_64")]
    unsafe fn read(machine: *mut c_void) -> Option<FaultRegisters> {
        // SAFETY: the caller promises that `machine` is what the system passed to a signal handler:
        // null or a `ucontext_t`.
        let machine = unsafe { machine.cast::<libc::ucontext_t>().as_ref() }?;
        let registers = &machine.uc_mcontext.gregs;
        let register = |number: c_int| registers.get(number as usize).map(|value| *value as usize);
        Some(FaultRegisters {
            instruction: register(libc::REG_RIP)?,
            stack: register(libc::REG_RSP)?,
        })
    }

    /// # Safety
    ///
    /// `machine` must be what the system passed to a signal handler.
    #[cfg(target_arch = "aarch64")]
    unsafe fn read(machine: *mut c_void) -> Option<FaultRegisters> {
        // SAFETY: the caller promises that `machine` is what the system passed to a signal handler:
        // null or a `ucontext_t`.
        let machine = unsafe { machine.cast::<libc::ucontext_t>().as_ref() }?;
        Some(FaultRegisters {
            instruction: machine.uc_mcontext.pc as usize,
            stack: machine.uc_mcontext.sp as usize,
        })
    }

    /// # Safety
    ///
    /// None: the pointer is not used.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe fn read(_machine: *mut c_void) -> Option<FaultRegisters> {
        None
    }

    /// Whether a fault at an address is a stack overflow: at the end of the stack or, with a large
    /// frame, somewhat beyond it.
    fn is_overflow(self, address: usize) -> bool {
        let below = self.stack.saturating_sub(256 * 1024);
        (below..=self.stack.saturating_add(4096)).contains(&address)
    }
}

//! Signals that end the process, and `exit` in the middle of a run: told with the hook that was
//! called, and then ended with the exit code 5.

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{io, mem, ptr};

use super::report::{self, End, Kind, Text};
use super::suspects::Suspects;
use super::trail::Trail;
use crate::exit;
use crate::signals;

/// The environment variable that asks for a core file beside the report.
pub(crate) const CORE: &str = "SCONCE_CORE";

/// The signals of crashes.
const SIGNALS: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGABRT,
];

/// Room for handlers on a stack that has overflown: a report, and some.
const STACK: usize = 128 * 1024;

/// Everything that a handler needs; never freed.
struct Context {
    pid: libc::pid_t,
    /// The thread that hooks are called on.
    thread: libc::pid_t,
    trail: &'static Trail,
    suspects: Suspects,
    /// The report's file, and its name until it is whole.
    report: CString,
    part: CString,
    /// The code of the plugins: from, to, the first hook of that plugin.
    code: Vec<(usize, usize, usize)>,
    wants_core: bool,
}

/// So much of a stack is looked through for a plugin's code, in pieces.
const PIECE: usize = 4096;
const PIECES: usize = 16;

impl Context {
    /// The plugin whose code is at an address, by its first hook.
    fn plugin_at(&self, address: usize) -> Option<usize> {
        let mut code = self.code.iter();
        let found = code.find(|(from, to, _)| (*from..*to).contains(&address));
        found.map(|(_, _, hook)| *hook)
    }

    /// The plugin whose code called what crashed: the innermost address on the stack that leads to a plugin's code.
    /// The stack may be damaged, or end, so the system copies it, which answers with an error then.
    fn caller(&self, stack: usize) -> Option<usize> {
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
            // SAFETY: the system writes to the words, which have room, and asks nothing of the other place.
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

static CONTEXT: AtomicPtr<Context> = AtomicPtr::new(ptr::null_mut());

/// Whether a report is being written: what goes wrong then is not told again.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// From now on crashes and exits are told. To be called on the thread that calls the hooks.
pub(super) fn install(
    trail: &'static Trail,
    suspects: Suspects,
    directory: &Path,
) -> io::Result<()> {
    let report = directory.join("crash.json");
    let part = directory.join(".crash.json.part");
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    // SAFETY: asks the system for two numbers.
    let (pid, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    let context = Context {
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
        // SAFETY: numbers and pointers, for which zeros are good.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that `SA_SIGINFO` asks for.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    if is_first {
        // SAFETY: functions that stay as long as the process.
        let failed = unsafe { libc::atexit(on_exit) != 0 || at_quick_exit(on_exit) != 0 };
        if failed {
            return Err(io::Error::other("`atexit` has no room"));
        }
    }
    Ok(())
}

unsafe extern "C" {
    /// C11's.
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// A stack for the handlers, since the thread's own may be what has overflown.
fn alternate_stack() -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a fresh mapping of its own, which is never unmapped, becomes the handlers' stack.
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

/// Where the plugins' code lies in memory.
fn code_of(suspects: &Suspects) -> Vec<(usize, usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut code = Vec::new();
    let mut seen: Vec<&Path> = Vec::new();
    for (index, suspect) in suspects.hooks.iter().enumerate() {
        if seen.contains(&suspect.loaded.as_path()) {
            continue;
        }
        seen.push(&suspect.loaded);
        // The name of a file in memory is `/memfd:NAME (deleted)`, and two may have the same: the
        // number of the file tells them apart.
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
                code.push((from, to, index));
            }
        }
    }
    code
}

/// The handler of [`SIGNALS`].
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, machine: *mut c_void) {
    // SAFETY: leaked when it was installed, and only read.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        default_action(signal)
    };
    // A forked process has nothing to do with the run any more.
    // SAFETY: asks the system for a number.
    if unsafe { libc::getpid() } != context.pid {
        default_action(signal);
    }
    if IS_TOLD.swap(true, Ordering::SeqCst) {
        // A crash while a crash is told: another thread's, or the telling's own.
        // SAFETY: asks the system for a number.
        if unsafe { libc::gettid() } == context.thread {
            end();
        }
        loop {
            // SAFETY: waits for the other one to end the process.
            unsafe { libc::pause() };
        }
    }
    // SAFETY: the system's own for this signal.
    let (address, place) = unsafe { (address_of(info), Place::read(machine)) };
    // SAFETY: asks the system for a number.
    let on_training_thread = unsafe { libc::gettid() } == context.thread;
    let library = place.and_then(|place| context.plugin_at(place.instruction));
    // Where a hook is being called it is named anyway; elsewhere nothing else says whose work it was.
    let is_unnamed = !on_training_thread || !context.trail.is_calling();
    let caller = place
        .filter(|_| library.is_none() && is_unnamed)
        .and_then(|place| context.caller(place.stack));
    tell(
        context,
        &End {
            kind: Kind::Crash,
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

/// Called when the process exits in an orderly way.
extern "C" fn on_exit() {
    // SAFETY: leaked when it was installed, and only read.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        return;
    };
    // SAFETY: asks the system for a number.
    let is_own = unsafe { libc::getpid() } == context.pid;
    if !is_own || !context.trail.is_running() || IS_TOLD.swap(true, Ordering::SeqCst) {
        return;
    }
    tell(
        context,
        &End {
            kind: Kind::Exit,
            signal: None,
            stack_overflow: false,
            // SAFETY: asks the system for a number.
            on_training_thread: unsafe { libc::gettid() } == context.thread,
            library: None,
            is_called: false,
            seconds: None,
        },
    );
    end()
}

/// A call that took too long, told by the watchdog; false where something else is told already.
pub(super) fn tell_hang(seconds: u64) -> bool {
    // SAFETY: leaked when it was installed, and only read.
    let Some(context) = (unsafe { CONTEXT.load(Ordering::SeqCst).as_ref() }) else {
        return false;
    };
    if IS_TOLD.swap(true, Ordering::SeqCst) {
        return false;
    }
    tell(
        context,
        &End {
            kind: Kind::Hang,
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
fn tell(context: &Context, end: &End) {
    // Words are for the terminal as it was.
    super::terminal::give_back();
    let mut text = Text::new();
    report::message(&mut text, end, context.trail, &context.suspects);
    // SAFETY: standard error may be closed, which is no reason to do otherwise.
    unsafe { write_all(2, text.bytes()) };
    let is_written = write_report(context, end);
    let mut text = Text::new();
    report::message_end(&mut text, end, context.trail, &context.suspects, is_written);
    // SAFETY: as above.
    unsafe { write_all(2, text.bytes()) };
}

/// Writes `crash.json`; whether it is there.
fn write_report(context: &Context, end: &End) -> bool {
    let mut text = Text::new();
    report::json(&mut text, end, context.trail, &context.suspects);
    // SAFETY: paths that end with a zero, and calls that are allowed in a signal handler.
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
/// Any number is good; a closed one is answered with false.
unsafe fn write_all(file: c_int, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or_default(),
            _ => return false,
        }
    }
    true
}

/// Ends the process; nothing of it runs any more, destructors neither.
fn end() -> ! {
    // SAFETY: that is all it does.
    unsafe { libc::_exit(i32::from(exit::CRASH)) }
}

/// What the signal does to a process that says nothing of it.
fn default_action(signal: c_int) -> ! {
    // SAFETY: calls that are allowed in a signal handler; the signal is not blocked.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}

/// A core file by a forked process, which has the same memory: this one keeps its exit code.
fn leave_core(signal: c_int) {
    // SAFETY: not by way of `fork`, which runs handlers and takes locks. The child runs nothing but
    // its end.
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
/// `info` must be what the system gave a handler.
unsafe fn address_of(info: *mut libc::siginfo_t) -> usize {
    // SAFETY: passed on.
    unsafe { info.as_ref() }.map_or(0, |info| {
        // SAFETY: an address for all faults; a number of something else where a process sent it.
        unsafe { info.si_addr() as usize }
    })
}

/// Where the thread was.
#[derive(Clone, Copy)]
struct Place {
    instruction: usize,
    stack: usize,
}

impl Place {
    /// # Safety
    ///
    /// `machine` must be what the system gave a handler.
    #[cfg(target_arch = "x86_64")]
    unsafe fn read(machine: *mut c_void) -> Option<Place> {
        // SAFETY: passed on.
        let machine = unsafe { machine.cast::<libc::ucontext_t>().as_ref() }?;
        let registers = &machine.uc_mcontext.gregs;
        let register = |number: c_int| registers.get(number as usize).map(|value| *value as usize);
        Some(Place {
            instruction: register(libc::REG_RIP)?,
            stack: register(libc::REG_RSP)?,
        })
    }

    /// # Safety
    ///
    /// `machine` must be what the system gave a handler.
    #[cfg(target_arch = "aarch64")]
    unsafe fn read(machine: *mut c_void) -> Option<Place> {
        // SAFETY: passed on.
        let machine = unsafe { machine.cast::<libc::ucontext_t>().as_ref() }?;
        Some(Place {
            instruction: machine.uc_mcontext.pc as usize,
            stack: machine.uc_mcontext.sp as usize,
        })
    }

    /// # Safety
    ///
    /// None.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe fn read(_machine: *mut c_void) -> Option<Place> {
        None
    }

    /// Whether a fault at an address is a stack that has no more room: at its end or, with a large
    /// frame, somewhat behind it.
    fn is_overflow(self, address: usize) -> bool {
        let below = self.stack.saturating_sub(256 * 1024);
        (below..=self.stack.saturating_add(4096)).contains(&address)
    }
}

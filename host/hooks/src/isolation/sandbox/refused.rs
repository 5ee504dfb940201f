//! Names the system calls that a sandbox refuses, for authors of hooks: `SCONCE_SANDBOX_LOG=1`.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use syscalls::Sysno;

/// More than the greatest number.
const NUMBERS: usize = 512;

/// Calls that have been named; a program may repeat one a million times.
static NAMED: [AtomicBool; NUMBERS] = [const { AtomicBool::new(false) }; NUMBERS];

/// Has each refused call named once. Refused calls must be trapped.
///
/// # Errors
///
/// If the system refuses.
pub(super) fn name_them() -> io::Result<()> {
    // SAFETY: a structure of numbers and addresses, of which all may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_refusal;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the structure is complete, and the handler does only what handlers may.
    if unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Names the call and has it fail with `EPERM`, as it would without this handler.
extern "C" fn on_refusal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands the handler the registers of the thread that made the call.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_mut() }) else {
        return;
    };
    let number = usize::try_from(replace_result(context)).unwrap_or(NUMBERS);
    let is_new = NAMED
        .get(number)
        .is_some_and(|named| !named.swap(true, Ordering::Relaxed));
    if !is_new {
        return;
    }
    let name = Sysno::new(number).map_or("an unknown one", |call| call.name());
    for text in ["sandbox: the system call `", name, "` was refused\n"] {
        // SAFETY: the text is valid for its length. What it writes needs no answer.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
}

/// Makes the interrupted call return that it is not permitted, and returns its number.
#[cfg(target_arch = "x86_64")]
fn replace_result(context: &mut libc::ucontext_t) -> i64 {
    let register = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
    std::mem::replace(register, -i64::from(libc::EPERM))
}

/// Makes the interrupted call return that it is not permitted, and returns its number.
#[cfg(target_arch = "aarch64")]
fn replace_result(context: &mut libc::ucontext_t) -> i64 {
    const NUMBER: usize = 8;
    let registers = &mut context.uc_mcontext.regs;
    registers[0] = (-i64::from(libc::EPERM)) as u64;
    registers[NUMBER] as i64
}

/// Elsewhere no sandbox is entered.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn replace_result(_: &mut libc::ucontext_t) -> i64 {
    -1
}

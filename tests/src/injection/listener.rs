//! System calls of a process and of all that it starts, stopped before they are made.
//!
//! A thread installs a seccomp filter that hands calls to a listener, and starts the process: filters are inherited by
//! threads, by forks and over `exec`. The listener's answer lets a call be made or fail.

#![allow(unsafe_code, reason = "the system calls have no safe wrapper")]

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::call::{CALLS, Kind};

/// Receives the stopped calls.
pub(super) struct Listener(OwnedFd);

/// A stopped call.
pub(super) struct Stopped {
    id: u64,
    /// The calling thread.
    pub(super) thread: u32,
    /// Number of the system call.
    pub(super) number: libc::c_long,
    pub(super) arguments: [u64; 6],
}

/// Whether this process may do so; the error says why not.
///
/// # Errors
///
/// What the system says.
pub fn permitted() -> io::Result<()> {
    // A thread of its own: the filter stays with it.
    let tried = std::thread::spawn(|| Listener::install().map(drop));
    tried
        .join()
        .map_err(|_| io::Error::other("the thread panicked"))?
}

impl Listener {
    /// Installs the filter for the calling thread and all that it starts from now on. Its own calls are stopped as well.
    pub(super) fn install() -> io::Result<Listener> {
        let mut program = filter();
        let length = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog {
            len: length,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: it has no pointers; an unprivileged process must give up what `exec` may add to its rights.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A signal must not cancel a stopped call, which would be made and counted again; known since Linux 5.19.
        let newer = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let mut refusal = io::Error::other("unreachable");
        for flags in [newer, 0] {
            let flags = flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            // SAFETY: the program lives until the call returns, and its length is that of its instructions.
            let descriptor = unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    flags,
                    &raw const program,
                )
            };
            if let Ok(descriptor @ 0..) = i32::try_from(descriptor) {
                // SAFETY: the system has just made it, for us.
                return Ok(Listener(unsafe { OwnedFd::from_raw_fd(descriptor) }));
            }
            refusal = io::Error::last_os_error();
        }
        Err(refusal)
    }

    /// Waits for the next call; `None` if there was none for this time, or no process is left that could make one.
    pub(super) fn next(&self, patience: Duration) -> io::Result<Option<Stopped>> {
        let mut entry = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one entry, which is ours.
        let count = unsafe { libc::poll(&raw mut entry, 1, milliseconds) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        if entry.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        // SAFETY: numbers only, for which zeros are valid; the system wants zeros.
        let mut notice: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: the request takes a pointer to this type.
        let received = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut notice,
            )
        };
        if received != 0 {
            let error = io::Error::last_os_error();
            // The process was killed meanwhile.
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Stopped {
            id: notice.id,
            thread: notice.pid,
            number: libc::c_long::from(notice.data.nr),
            arguments: notice.data.args,
        }))
    }

    /// Lets a call be made, or fail with an error number.
    pub(super) fn answer(&self, stopped: &Stopped, error: Option<i32>) -> io::Result<()> {
        let mut answer = libc::seccomp_notif_resp {
            id: stopped.id,
            val: 0,
            error: error.map_or(0, |number| -number),
            flags: 0,
        };
        if error.is_none() {
            answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        }
        // SAFETY: the request takes a pointer to this type.
        let sent = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut answer,
            )
        };
        let error = io::Error::last_os_error();
        // The process was killed meanwhile.
        if sent == 0 || error.raw_os_error() == Some(libc::ENOENT) {
            return Ok(());
        }
        Err(error)
    }
}

/// The filter: stops [`CALLS`], of those that open files the ones that may create or truncate one.
fn filter() -> Vec<libc::sock_filter> {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let any_bit = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let stop = instruction(end, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    let allow = instruction(end, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![instruction(
        load,
        0,
        0,
        offset_of!(libc::seccomp_data, nr) as u32,
    )];
    for (number, _, kind) in CALLS {
        let number = *number as u32;
        let Kind::Open { flags, .. } = kind else {
            program.extend([instruction(equal, 0, 1, number), stop]);
            continue;
        };
        // The lower half of the argument comes first: both processors are little-endian.
        let flags = offset_of!(libc::seccomp_data, args) + 8 * flags;
        let changes = (libc::O_CREAT | libc::O_TRUNC) as u32;
        program.extend([
            instruction(equal, 0, 4, number),
            instruction(load, 0, 0, flags as u32),
            instruction(any_bit, 0, 1, changes),
            stop,
            allow,
        ]);
    }
    program.push(allow);
    program
}

//! Which system calls a sandboxed process may make: seccomp.
//!
//! A list of what is *allowed*, since what must be refused is longer, and grows with each kernel. A call of the kernel's
//! table that isn't on the list fails with `EPERM`. One that the table doesn't have fails with `ENOSYS`, on which C libraries
//! fall back to older calls. Calls by another processor's numbers (32 bits, x32) end the process.

use std::str::FromStr;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};
use syscalls::Sysno;

use super::super::sandbox_log::sandbox_log_is_on;
use super::refused;
use sconce_manifest::SandboxRules;

/// Calls that are allowed with any arguments, by what they are for. Names that a processor doesn't have are left out there.
pub(super) const ALLOWED: [(&str, &[&str]); 6] = [
    (
        "files, of which Landlock decides",
        &[
            "access",
            "chdir",
            "close",
            "close_range",
            "copy_file_range",
            "dup",
            "dup2",
            "dup3",
            "faccessat",
            "faccessat2",
            "fadvise64",
            "fallocate",
            "fchdir",
            "fdatasync",
            "flock",
            "fstat",
            "fstatfs",
            "fsync",
            "ftruncate",
            "getcwd",
            "getdents64",
            "link",
            "linkat",
            "lseek",
            "lstat",
            "mkdir",
            "mkdirat",
            "newfstatat",
            "open",
            "openat",
            "pread64",
            "preadv",
            "preadv2",
            "pwrite64",
            "pwritev",
            "pwritev2",
            "read",
            "readahead",
            "readlink",
            "readlinkat",
            "readv",
            "rename",
            "renameat",
            "renameat2",
            "rmdir",
            "sendfile",
            "stat",
            "statfs",
            "statx",
            "sync_file_range",
            "umask",
            "unlink",
            "unlinkat",
            "write",
            "writev",
        ],
    ),
    (
        "memory",
        &[
            "brk",
            "membarrier",
            "memfd_create",
            "mincore",
            "mlock",
            "mmap",
            "mprotect",
            "mremap",
            "msync",
            "munlock",
            "munmap",
        ],
    ),
    (
        "threads",
        &[
            "exit",
            "exit_group",
            "futex",
            "futex_requeue",
            "futex_wait",
            "futex_waitv",
            "futex_wake",
            "getcpu",
            "getrusage",
            "pause",
            "restart_syscall",
            "rseq",
            "rt_sigaction",
            "rt_sigpending",
            "rt_sigprocmask",
            "rt_sigreturn",
            "rt_sigsuspend",
            "rt_sigtimedwait",
            "sched_get_priority_max",
            "sched_get_priority_min",
            "sched_getaffinity",
            "sched_getattr",
            "sched_getparam",
            "sched_getscheduler",
            "sched_rr_get_interval",
            "sched_yield",
            "set_robust_list",
            "sigaltstack",
            "wait4",
            "waitid",
        ],
    ),
    (
        "time",
        &[
            "alarm",
            "clock_getres",
            "clock_gettime",
            "clock_nanosleep",
            "getitimer",
            "gettimeofday",
            "nanosleep",
            "setitimer",
            "time",
            "timer_create",
            "timer_delete",
            "timer_getoverrun",
            "timer_gettime",
            "timer_settime",
            "timerfd_create",
            "timerfd_gettime",
            "timerfd_settime",
            "times",
        ],
    ),
    (
        "waiting",
        &[
            "epoll_create",
            "epoll_create1",
            "epoll_ctl",
            "epoll_pwait",
            "epoll_pwait2",
            "epoll_wait",
            "eventfd",
            "eventfd2",
            "getpeername",
            "getsockname",
            "getsockopt",
            "pipe",
            "pipe2",
            "poll",
            "ppoll",
            "pselect6",
            "recvfrom",
            "recvmsg",
            "select",
            "sendmsg",
            "sendto",
            "setsockopt",
            "shutdown",
        ],
    ),
    (
        "facts",
        &[
            "arch_prctl",
            "capget",
            "getegid",
            "geteuid",
            "getgid",
            "getgroups",
            "getpgid",
            "getpgrp",
            "getpid",
            "getppid",
            "getpriority",
            "getrandom",
            "getresgid",
            "getresuid",
            "getrlimit",
            "getsid",
            "gettid",
            "getuid",
            "sysinfo",
            "uname",
        ],
    ),
];

/// More calls with `"network": true`.
pub(super) const NETWORK: [&str; 7] = [
    "accept", "accept4", "bind", "connect", "listen", "recvmmsg", "sendmmsg",
];

/// More calls with `"processes": true`.
pub(super) const PROCESSES: [&str; 4] = ["execve", "fork", "set_tid_address", "vfork"];

/// Calls that make processes and threads. They are never trapped: the C library makes them with all signals blocked, where
/// a trap would end the process.
const MAKERS: [&str; 3] = ["clone", "fork", "vfork"];

/// `TIOCGWINSZ`, `TCGETS`, and what `read` and `fcntl` would do as well; callers expect `ENOTTY` for others.
const TERMINAL_REQUESTS: [u64; 6] = [
    libc::TCGETS,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
];

/// What a descriptor may be asked; not to whom it sends signals, or what it leases.
const DESCRIPTOR_COMMANDS: [i32; 14] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_GET_SEALS,
    libc::F_ADD_SEALS,
];

/// What a process may ask about itself or change: names, and nothing of its parent or its protection.
const OWN_FACTS: [i32; 6] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_VMA,
    libc::PR_GET_DUMPABLE,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_NO_NEW_PRIVS,
];

/// Advice about memory that reaches further than the process: pages marked as broken, pages shared with other processes,
/// whose timing tells what they hold.
const ADVICE_REFUSED: [i32; 3] = [
    libc::MADV_HWPOISON,
    libc::MADV_SOFT_OFFLINE,
    libc::MADV_MERGEABLE,
];

/// New namespaces, and a child that can't be traced.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_UNTRACED,
];

/// Restricts the process to these calls. Signals may go to other processes of the sandbox where the kernel keeps them in.
///
/// # Errors
///
/// Why it can't be restricted, for the user.
pub(super) fn restrict(rules: &SandboxRules, keeps_signals_in: bool) -> Result<(), String> {
    let told =
        |error: &dyn std::fmt::Display| format!("its system calls can't be restricted: {error}");
    let own = std::process::id();
    let are_named = sandbox_log_is_on();
    if are_named {
        refused::name_them().map_err(|error| told(&error))?;
    }
    let refusal = if are_named {
        SeccompAction::Trap
    } else {
        SeccompAction::Errno(libc::EPERM as u32)
    };
    let filters = || -> Result<[BpfProgram; 3], seccompiler::BackendError> {
        // The list last: it allows no further filters.
        Ok([
            requests()?,
            makers(rules)?,
            list(rules, keeps_signals_in, own, refusal)?,
        ])
    };
    for filter in filters().map_err(|error| told(&error))? {
        apply_filter(&filter).map_err(|error| told(&error))?;
    }
    Ok(())
}

/// A filter that refuses terminals' requests that could type for their user, and all others that drivers know.
fn requests() -> Result<BpfProgram, seccompiler::BackendError> {
    let each = TERMINAL_REQUESTS.map(|request| (1, SeccompCmpOp::Ne, request));
    filter(
        [("ioctl", vec![half_words(&each)?])],
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOTTY as u32),
    )
}

/// A filter that refuses new processes, unless they are allowed, and new namespaces.
fn makers(rules: &SandboxRules) -> Result<BpfProgram, seccompiler::BackendError> {
    let flags = |mask: u64, value: u64| {
        let shape = SeccompCmpOp::MaskedEq(mask);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, shape, value)?;
        SeccompRule::new(vec![condition])
    };
    let mut refused: Vec<SeccompRule> = NAMESPACES
        .iter()
        .map(|flag| flags(*flag as u64, *flag as u64))
        .collect::<Result<_, _>>()?;
    let mut calls: Vec<(&str, Vec<SeccompRule>)> = Vec::new();
    if !rules.processes {
        refused.push(flags(libc::CLONE_THREAD as u64, 0)?);
        calls.extend(["fork", "vfork"].map(|name| (name, Vec::new())));
    }
    calls.push(("clone", refused));
    filter(
        calls,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
    )
}

/// The list of what is allowed to a process with the number `own`. Refused calls are met with `refusal`.
fn list(
    rules: &SandboxRules,
    keeps_signals_in: bool,
    own: u32,
    refusal: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut calls: Vec<(&str, Vec<SeccompRule>)> = Vec::new();
    let every = ALLOWED.iter().flat_map(|(_, names)| names.iter());
    calls.extend(every.map(|name| (*name, Vec::new())));
    let is = |argument: u8, value: i32| half_words(&[(argument, SeccompCmpOp::Eq, value as u64)]);
    let is_own = |argument: u8| half_words(&[(argument, SeccompCmpOp::Eq, u64::from(own))]);
    let one_of = |argument: u8, values: &[i32]| -> Result<Vec<SeccompRule>, _> {
        values.iter().map(|value| is(argument, *value)).collect()
    };

    // Their arguments are checked by the filters before this one.
    calls.push(("ioctl", Vec::new()));
    calls.extend(MAKERS.map(|name| (name, Vec::new())));
    calls.push(("fcntl", one_of(1, &DESCRIPTOR_COMMANDS)?));
    calls.push(("prctl", one_of(0, &OWN_FACTS)?));
    let advice = ADVICE_REFUSED.map(|advice| (2, SeccompCmpOp::Ne, advice as u64));
    calls.push(("madvise", vec![half_words(&advice)?]));
    calls.push(("sched_setaffinity", vec![is(0, 0)?, is_own(0)?]));
    let asked_only = |process: u32| {
        SeccompRule::new(vec![
            half_word(0, SeccompCmpOp::Eq, u64::from(process))?,
            SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?,
        ])
    };
    calls.push(("prlimit64", vec![asked_only(0)?, asked_only(own)?]));
    calls.push(("socketpair", vec![is(0, libc::AF_UNIX)?]));

    if rules.processes {
        let others = PROCESSES.iter().filter(|name| !MAKERS.contains(name));
        calls.extend(others.map(|name| (*name, Vec::new())));
    }
    if rules.processes && keeps_signals_in {
        calls.extend(["kill", "tgkill"].map(|name| (name, Vec::new())));
    } else {
        calls.push(("tgkill", vec![is_own(0)?]));
    }
    if rules.network {
        calls.extend(NETWORK.map(|name| (name, Vec::new())));
        let families = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX];
        calls.push(("socket", one_of(0, &families)?));
    }
    let listed = filter(calls, refusal, SeccompAction::Allow)?;
    Ok(numbers_first(listed))
}

/// A filter over calls by their names, of which this processor may lack some.
fn filter<'a>(
    calls: impl IntoIterator<Item = (&'a str, Vec<SeccompRule>)>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let known = calls.into_iter().filter_map(|(name, rules)| {
        let call = Sysno::from_str(name).ok()?;
        Some((i64::from(call.id()), rules))
    });
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(known.collect(), otherwise, listed, machine)?.try_into()
}

/// Conditions on the lower halves of arguments, all of which must hold. The kernel ignores the upper halves of arguments
/// that are `int`.
fn half_words(
    conditions: &[(u8, SeccompCmpOp, u64)],
) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.iter();
    let conditions = conditions
        .map(|(argument, operation, value)| half_word(*argument, operation.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn half_word(
    argument: u8,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    let half = value & u64::from(u32::MAX);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, half)
}

/// Puts what is decided by the number alone in front of a filter.
fn numbers_first(listed: BpfProgram) -> BpfProgram {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const IF_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // The bit of x32's numbers; other processors have no such calls.
    const OTHER_NUMBERS: u32 = 1 << 30;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut program = vec![
        instruction(LOAD, 0, 0, 0),
        instruction(IF_AT_LEAST, 0, 1, OTHER_NUMBERS),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    for (first, last) in unknown() {
        program.extend([
            instruction(IF_AT_LEAST, 0, 2, first),
            instruction(IF_GREATER, 1, 0, last),
            instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        ]);
    }
    program.extend(listed);
    program
}

/// First and last numbers of the calls that are said not to exist: what the kernel's table doesn't have, and `clone3`, whose
/// arguments are in memory, where a filter can't look.
fn unknown() -> Vec<(u32, u32)> {
    let is_known = |number: &u32| {
        let call = Sysno::new(*number as usize);
        call.is_some_and(|call| call != Sysno::clone3)
    };
    let mut ranges = Vec::new();
    let mut first = 0;
    for known in (0..=Sysno::last().id().unsigned_abs()).filter(is_known) {
        if known > first {
            ranges.push((first, known - 1));
        }
        first = known + 1;
    }
    ranges.push((first, u32::MAX));
    ranges
}

#[cfg(test)]
mod tests;

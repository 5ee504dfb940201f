//! Process settings that outlive a library's constructors and would cause trouble much later. They are
//! blocked signals (Ctrl-C does nothing), timers (the process dies in the middle of a run), resource limits,
//! the umask, CPU affinity and priority; and child processes left behind.

use std::fmt::Display;
use std::{mem, ptr};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, WaitId, WaitIdOptions, getpriority_process, getrlimit, setpriority_process,
    setrlimit, umask, waitid,
};

use super::change::describe_change;
use crate::signals;

/// All signals of this system, including the real-time ones.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// Maximum number of signal names in a message.
const NAMED: usize = 4;

/// The interval timers, and the wording for a library that has set one.
const TIMERS: [(i32, &str); 3] = [
    (libc::ITIMER_REAL, "set an alarm"),
    (libc::ITIMER_VIRTUAL, "set a timer of processor time"),
    (libc::ITIMER_PROF, "set a profiling timer"),
];

const LIMITS: [(Resource, &str); 15] = [
    (Resource::As, "RLIMIT_AS"),
    (Resource::Core, "RLIMIT_CORE"),
    (Resource::Cpu, "RLIMIT_CPU"),
    (Resource::Data, "RLIMIT_DATA"),
    (Resource::Fsize, "RLIMIT_FSIZE"),
    (Resource::Memlock, "RLIMIT_MEMLOCK"),
    (Resource::Msgqueue, "RLIMIT_MSGQUEUE"),
    (Resource::Nice, "RLIMIT_NICE"),
    (Resource::Nofile, "RLIMIT_NOFILE"),
    (Resource::Nproc, "RLIMIT_NPROC"),
    (Resource::Rss, "RLIMIT_RSS"),
    (Resource::Rtprio, "RLIMIT_RTPRIO"),
    (Resource::Rttime, "RLIMIT_RTTIME"),
    (Resource::Sigpending, "RLIMIT_SIGPENDING"),
    (Resource::Stack, "RLIMIT_STACK"),
];

/// The settings before a library's code runs, on the current thread.
pub(super) struct ProcessSettings {
    blocked: Option<libc::sigset_t>,
    timers: [Option<libc::itimerval>; TIMERS.len()],
    limits: [Rlimit; LIMITS.len()],
    mask: Option<Mode>,
    processors: Option<libc::cpu_set_t>,
    nice: Option<i32>,
    has_children: bool,
}

impl ProcessSettings {
    pub(super) fn look() -> ProcessSettings {
        ProcessSettings {
            blocked: blocked(),
            timers: TIMERS.map(|(timer, _)| read_timer(timer)),
            limits: LIMITS.map(|(resource, _)| getrlimit(resource)),
            mask: mask(),
            processors: processors(),
            nice: getpriority_process(None).ok(),
            has_children: has_children(),
        }
    }

    /// Restores everything, and describes what had changed.
    pub(super) fn restore(&self, when: &str, changes: &mut Vec<String>) {
        self.restore_signals(when, changes);
        self.restore_timers(when, changes);
        self.restore_limits(when, changes);
        if let Some(before) = self.mask
            && let Some(now) = mask().filter(|now| *now != before)
        {
            umask(before);
            let what = format!(
                "changed the permissions of new files (umask {:03o} to {:03o})",
                before.bits(),
                now.bits()
            );
            changes.push(describe_change(&what, when, true));
        }
        self.restore_processors(when, changes);
        if let Some(before) = self.nice
            && getpriority_process(None).is_ok_and(|now| now != before)
        {
            let undone = setpriority_process(None, before).is_ok();
            changes.push(describe_change(
                "changed the process's priority",
                when,
                undone,
            ));
        }
        if !self.has_children && has_children() {
            changes.push(format!(
                "left a process behind {when} (a copy of this one that comes back is ended)"
            ));
        }
    }

    fn restore_signals(&self, when: &str, changes: &mut Vec<String>) {
        let (Some(before), Some(now)) = (self.blocked, blocked()) else {
            return;
        };
        let mut all = SIGNALS;
        if all.all(|signal| is_in(&before, signal) == is_in(&now, signal)) {
            return;
        }
        // SAFETY: `before` is a signal set read from the system; the old mask is not requested.
        let undone = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) == 0
        };
        let names: Vec<String> = SIGNALS
            .filter(|signal| is_in(&now, *signal) && !is_in(&before, *signal))
            .map(signals::name)
            .collect();
        let what = match names.len() {
            0 => "changed which signals are blocked".to_owned(),
            1..=NAMED => format!("blocked {}", names.join(", ")),
            count => format!(
                "blocked {} and {} more signals",
                names.get(..NAMED).unwrap_or_default().join(", "),
                count - NAMED
            ),
        };
        changes.push(describe_change(&what, when, undone));
    }

    fn restore_timers(&self, when: &str, changes: &mut Vec<String>) {
        for ((timer, what), before) in TIMERS.into_iter().zip(&self.timers) {
            let (Some(before), Some(now)) = (before, read_timer(timer)) else {
                continue;
            };
            if is_set(before) == is_set(&now) {
                continue;
            }
            // SAFETY: `before` is a timer value read from the system; the old value is not requested.
            let undone = unsafe { libc::setitimer(timer, before, ptr::null_mut()) == 0 };
            let what = if is_set(&now) {
                what
            } else {
                "cleared a timer"
            };
            changes.push(describe_change(what, when, undone));
        }
    }

    fn restore_limits(&self, when: &str, changes: &mut Vec<String>) {
        for ((resource, name), before) in LIMITS.into_iter().zip(&self.limits) {
            let now = getrlimit(resource);
            if now == *before {
                continue;
            }
            // A lowered hard limit can't be raised again; the soft limit is restored as far as it allows.
            let undone = setrlimit(resource, *before).is_ok();
            if !undone {
                // None is unlimited.
                let soft = match (before.current, now.maximum) {
                    (Some(before), Some(most)) => Some(before.min(most)),
                    (before, most) => before.or(most),
                };
                let as_far = Rlimit {
                    current: soft,
                    maximum: now.maximum,
                };
                let _ = setrlimit(resource, as_far);
            }
            let what = format!(
                "changed the limit {name} from {} to {}",
                amount(before.current),
                amount(now.current)
            );
            changes.push(describe_change(&what, when, undone));
        }
    }

    fn restore_processors(&self, when: &str, changes: &mut Vec<String>) {
        let (Some(before), Some(now)) = (self.processors, processors()) else {
            return;
        };
        // SAFETY: both functions only read the two sets, which are initialised.
        let (is_same, counts) = unsafe {
            let count = |set: &libc::cpu_set_t| libc::CPU_COUNT(set);
            (
                libc::CPU_EQUAL(&before, &now),
                (count(&before), count(&now)),
            )
        };
        if is_same {
            return;
        }
        // SAFETY: `before` is a set read from the system, and its size is passed along.
        let undone = unsafe {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const before) == 0
        };
        let what = format!(
            "changed the processors that this process may use from {} to {}",
            counts.0, counts.1
        );
        changes.push(describe_change(&what, when, undone));
    }
}

fn amount(limit: Option<u64>) -> Box<dyn Display> {
    match limit {
        Some(limit) => Box::new(limit),
        None => Box::new("unlimited"),
    }
}

/// The signals blocked on this thread.
fn blocked() -> Option<libc::sigset_t> {
    // SAFETY: `sigset_t` is made of integers, for which zero is a valid value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: without a new mask this only writes the current one to `set`, which is valid for writes.
    let read = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set) };
    (read == 0).then_some(set)
}

fn is_in(set: &libc::sigset_t, signal: i32) -> bool {
    // SAFETY: only reads the initialised set; an invalid signal number returns -1.
    unsafe { libc::sigismember(set, signal) == 1 }
}

fn read_timer(timer: i32) -> Option<libc::itimerval> {
    // SAFETY: `itimerval` is made of integers, for which zero is a valid value.
    let mut value: libc::itimerval = unsafe { mem::zeroed() };
    // SAFETY: only writes the timer's value to `value`, which is valid for writes.
    let read = unsafe { libc::getitimer(timer, &raw mut value) };
    (read == 0).then_some(value)
}

fn is_set(timer: &libc::itimerval) -> bool {
    timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0
}

/// The umask; `/proc` is the only place to read it without changing it.
fn mask() -> Option<Mode> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    let bits = u32::from_str_radix(line.trim(), 8).ok()?;
    Some(Mode::from_bits_truncate(bits))
}

/// The CPU affinity of this thread; `None` if the system has more processors than the set can hold.
fn processors() -> Option<libc::cpu_set_t> {
    // SAFETY: `cpu_set_t` is a bit set, for which zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: only writes to `set`, which is valid for writes of the size given.
    let read = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    (read == 0).then_some(set)
}

/// Whether this process has children, including ended ones not yet waited for.
fn has_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Err(Errno::CHILD))
}

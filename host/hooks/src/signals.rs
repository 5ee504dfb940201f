//! Names of signals.

/// Name of a signal on this system, such as `SIGSEGV`; `signal` and its number if unknown.
pub fn name(signal: i32) -> String {
    match known(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

/// Names of the signals that commonly end programs.
#[cfg(target_os = "linux")]
pub(crate) fn known(signal: i32) -> Option<&'static str> {
    let names = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGXCPU, "SIGXCPU"),
    ];
    let found = names.iter().find(|(number, _)| *number == signal);
    found.map(|(_, name)| *name)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn known(_signal: i32) -> Option<&'static str> {
    None
}

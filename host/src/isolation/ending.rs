//! How a hook's process ended.

#[cfg(target_os = "linux")]
use std::{fmt, time::Duration};

/// Status of an order in which the process ended. Never that of a plugin: those are passed on as errors.
pub(crate) const ENDED: u32 = u32::MAX;

/// How a hook's process ended, or was ended.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a signal, such as `SIGSEGV`.
    Signal(String),
    /// By its own exit with this code.
    Exit(i32),
    /// It was killed because an order took longer than this.
    Late(Duration),
    /// It was killed because it said what can't be understood.
    Confused(String),
}

#[cfg(target_os = "linux")]
impl Ending {
    /// `kind` of a crash report.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Ending::Signal(_) | Ending::Confused(_) => "crash",
            Ending::Exit(_) => "exit",
            Ending::Late(_) => "hang",
        }
    }
}

#[cfg(target_os = "linux")]
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Signal(signal) => write!(f, "crashed ({signal}) in a process of its own"),
            Ending::Exit(code) => write!(f, "ended its own process (exit code {code})"),
            Ending::Late(limit) => {
                write!(
                    f,
                    "took longer than {} s, so that its own process was killed,",
                    limit.as_secs_f64()
                )
            }
            Ending::Confused(what) => write!(f, "had its own process killed, since {what},"),
        }
    }
}

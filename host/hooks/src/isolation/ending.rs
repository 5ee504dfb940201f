//! How a hook's process ended.

use std::{fmt, time::Duration};

/// How a hook's process ended, or was ended.
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

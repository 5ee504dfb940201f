//! How a trial load fails.

use std::fmt;
use std::time::Duration;

/// The environment variable with the time limit in seconds; it goes before the manifest's.
pub const VARIABLE: &str = "SCONCE_LOAD_LIMIT";

/// How a trial load ended other than well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub ending: Ending,
    /// Whether that happened when the process exited, once all libraries were open.
    pub is_at_exit: bool,
    /// The last lines that it wrote to standard error.
    pub words: String,
}

/// What happened to a child that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A signal ended it, by its name.
    Signal(String),
    /// It exited with this code.
    Exit(i32),
    /// It was not done in this time, and was ended.
    TimeOut(Duration),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ending, self.is_at_exit) {
            (Ending::Signal(name), false) => write!(f, "crashed while loading ({name})")?,
            (Ending::Exit(code), false) => {
                write!(f, "exited with {code} without saying that it is done")?;
            }
            (Ending::TimeOut(limit), false) => {
                write!(f, "not done loading after {} s", limit.as_secs_f64())?;
            }
            (Ending::Signal(name), true) => {
                write!(f, "crashes when the process exits ({name})")?;
            }
            (Ending::Exit(code), true) => write!(
                f,
                "changes the exit code of the process to {code} when the process exits"
            )?,
            (Ending::TimeOut(limit), true) => write!(
                f,
                "keeps the process from exiting: not done after {} s",
                limit.as_secs_f64()
            )?,
        }
        for line in self.words.lines() {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}

impl Fault {
    /// What to do about it.
    pub(super) fn hint(&self) -> String {
        match self.ending {
            Ending::TimeOut(_) => format!(
                "if it needs more time, give it more with `limits.load` in the manifest or the \
                 environment variable {VARIABLE}, in seconds"
            ),
            _ if self.is_at_exit => "its destructors, functions given to `atexit`, or those of \
                                     thread-locals do that; they should do nothing"
                .to_owned(),
            _ => "its constructors or its root module do that; they should do nothing".to_owned(),
        }
    }
}

//! Failures of a trial load.

use std::fmt;
use std::time::Duration;

use sconce_manifest::LOAD_LIMIT;

/// A failed trial load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How the child ended.
    pub ending: Ending,
    /// Whether that happened while the process was exiting, after all libraries had been opened.
    pub is_at_exit: bool,
    /// The last lines it wrote to standard error.
    pub words: String,
}

impl Fault {
    /// Whether the child was killed from outside, as for want of memory: `SIGKILL` is not what a library at fault dies of.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "for Linux's trials")
    )]
    pub(crate) fn is_from_outside(&self) -> bool {
        self.ending == Ending::Signal("SIGKILL".to_owned())
    }
}

/// The end of a child that did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Killed by the signal of this name.
    Signal(String),
    /// Exited with this code.
    Exit(i32),
    /// Not finished within this time, and killed.
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
    /// A remedy.
    pub(in crate::plugin) fn hint(&self) -> String {
        match self.ending {
            Ending::TimeOut(_) => format!(
                "if it needs more time, give it more with `limits.load` in the manifest or the \
                 environment variable {LOAD_LIMIT}, in seconds"
            ),
            _ if self.is_at_exit => "its destructors, functions given to `atexit`, or those of \
                                     thread-locals do that; they should do nothing"
                .to_owned(),
            _ => "its constructors or its root module do that, which should do nothing, or the file is damaged: \
                  then build or copy it again"
                .to_owned(),
        }
    }
}

//! A hook's failure, with everything needed to find its cause.

use std::fmt;
use std::path::PathBuf;

use super::{HookSpec, LifeEvent};
use crate::plugin::entry_error::EntryError;

/// Failure of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFault {
    /// Name of the hook in the run.
    pub hook: String,
    /// Hook kind.
    pub kind: String,
    /// File of the plugin.
    pub library: PathBuf,
    /// Event during which it failed.
    pub moment: LifeEvent,
    /// The plugin's error.
    pub error: EntryError,
}

impl HookFault {
    /// The fault of a hook, if it is one of the manifest's, at a moment of its life.
    pub fn new(spec: Option<&HookSpec>, moment: LifeEvent, error: EntryError) -> HookFault {
        HookFault {
            hook: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
            kind: spec.map(|spec| spec.kind.clone()).unwrap_or_default(),
            library: spec.map(|spec| spec.library.clone()).unwrap_or_default(),
            moment,
            error,
        }
    }
}

impl HookFault {
    /// Whether the source line in the plugin helps the reader of the message. A hook that refuses to be
    /// created reports a problem in its environment: its line in the source tells the user nothing, and
    /// its author can ask for it with `RUST_BACKTRACE`.
    fn has_informative_location(&self) -> bool {
        self.error.is_panic()
            || self.moment != LifeEvent::Create
            || std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
    }
}

impl fmt::Display for HookFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.error.is_panic() {
            "panicked"
        } else {
            "failed"
        };
        // Of an ended process the message begins with how it ended.
        let ended = self.error.has_ended();
        if !ended {
            write!(f, "hook `{}` {how} {}", self.hook, self.moment)?;
        }
        // Continuation lines are prefixed with the hook's name, so they can't pass for a message of
        // the host.
        for (index, line) in self.error.message.split('\n').enumerate() {
            match index {
                0 if ended => write!(f, "hook `{}` {line} {}", self.hook, self.moment)?,
                0 => write!(f, ": {line}")?,
                _ => write!(f, "\n  {}: {line}", self.hook)?,
            }
        }
        if !self.error.place.is_empty() && self.has_informative_location() {
            write!(f, "\n  at {}", self.error.place)?;
        }
        write!(f, "\n  in plugin {}", self.library.display())
    }
}

impl std::error::Error for HookFault {}

impl fmt::Display for LifeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LifeEvent::Create => f.write_str("when it was created"),
            LifeEvent::Save => f.write_str("when its state was saved"),
            LifeEvent::Load => f.write_str("when its state was restored"),
            LifeEvent::Drop => f.write_str("when it was dropped"),
            LifeEvent::Point {
                point,
                phase,
                epoch,
                iteration,
            } => {
                let point = point.map_or("an unknown point", |point| point.name());
                write!(
                    f,
                    "at `{point}` ({phase}), epoch {epoch}, iteration {iteration}"
                )
            }
        }
    }
}

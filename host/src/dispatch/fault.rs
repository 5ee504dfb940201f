//! A hook's fault, told with everything that leads to it.

use std::fmt;
use std::path::PathBuf;

use super::{HookSpec, Moment};
use crate::plugin::instance::EntryError;

/// A hook failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFault {
    /// The hook's name in the run.
    pub hook: String,
    /// The hook kind.
    pub kind: String,
    /// The plugin's file.
    pub library: PathBuf,
    /// When.
    pub moment: Moment,
    /// What the plugin said.
    pub error: EntryError,
}

impl HookFault {
    pub(crate) fn new(spec: Option<&HookSpec>, moment: Moment, error: EntryError) -> HookFault {
        HookFault {
            hook: spec.map(|spec| spec.name.clone()).unwrap_or_default(),
            kind: spec.map(|spec| spec.kind.clone()).unwrap_or_default(),
            library: spec.map(|spec| spec.library.clone()).unwrap_or_default(),
            moment,
            error,
        }
    }
}

impl fmt::Display for HookFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.error.is_panic() {
            "panicked"
        } else {
            "failed"
        };
        write!(f, "hook `{}` {how} {}", self.hook, self.moment)?;
        write!(f, ": {}", self.error.message)?;
        if !self.error.place.is_empty() {
            write!(f, "\n  at {}", self.error.place)?;
        }
        write!(f, "\n  in plugin {}", self.library.display())
    }
}

impl std::error::Error for HookFault {}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Create => f.write_str("when it was created"),
            Moment::Save => f.write_str("when its state was saved"),
            Moment::Load => f.write_str("when its state was restored"),
            Moment::Drop => f.write_str("when it was dropped"),
            Moment::Point {
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

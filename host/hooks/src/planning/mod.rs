//! The hooks that a document lists: found, opened, checked, and created.
//!
//! **Parts.** [`HookList`] is what is needed of the document; [`UnusableHooks`] are its problems.
//! - `find`: [`find_hooks`] searches for the libraries, copies them, and tries them in another process.
//! - `check`: [`plan_hooks`] opens them (`open`) and checks the configurations. `plan`: a [`HookPlan`], the result.
//! - `create`: [`create_hooks`] creates the hooks.
//!
//! **Flow.** The three functions in this order. No plugin code runs in this process before the second, and none anywhere while an
//! entry can't be resolved. The trainer and [`HookHost`](crate::host::HookHost) go this way alike.

mod check;
mod create;
mod find;
mod open;
mod plan;
mod unusable;

use std::path::PathBuf;

use sconce_manifest::diagnostic::{Diagnostic, TextLocation};
use sconce_manifest::{HookEntry, JsonSource, LimitsConfig};

pub use check::plan_hooks;
pub use create::{create_hooks, hooks_on, not_created};
pub use find::{FoundHooks, find_hooks};
pub use plan::{HookPlan, RunSetup};
pub use unusable::UnusableHooks;

/// The hooks that a document lists under `hooks`, and what finding and creating them takes.
#[derive(Clone, Copy, Debug)]
pub struct HookList<'a> {
    /// The entries, in order; some may have been left out.
    pub entries: &'a [HookEntry],
    /// Directories with plugins, in search order.
    pub plugins: &'a [PathBuf],
    /// Time limits for plugins.
    pub limits: &'a LimitsConfig,
    /// The text of the document, with the position of each value.
    pub source: &'a JsonSource,
}

impl HookList<'_> {
    /// The place in the text of a part of the document, such as `hooks[1].config`.
    pub(crate) fn place(&self, json_path: &str) -> TextLocation {
        self.source.location(json_path)
    }

    /// Adds the place of an entry to a problem, unless it has a more precise one.
    fn placed(&self, problem: Diagnostic, json_path: &str) -> Diagnostic {
        if problem.place.is_some() {
            return problem;
        }
        problem.at(self.place(json_path))
    }
}

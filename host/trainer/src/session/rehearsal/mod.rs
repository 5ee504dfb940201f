//! Creates a run's hooks in a child process, for `sconce check`. Whatever a constructor does there, including
//! crashes and hangs, is reported as it would be in a run.
//!
//! The child is this program's own executable with the hidden subcommand `create-hooks`. It reads its
//! `RehearsalOrder` from standard input and writes one JSON line for each `Word` to a file: the start of each
//! creation, messages of the hook, and the result. If a hook ends the process, the next child continues with
//! the hook after it. Hooks that have processes of their own are created there (`apart`). The hooks are never called, since there is no run, and are not dropped.

mod apart;
mod child;
mod parent;

pub use child::answer;
pub use parent::rehearse;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;

/// The hidden subcommand.
pub const COMMAND: &str = "create-hooks";

/// What hooks have said in a rehearsal.
#[derive(Default)]
pub struct Rehearsed {
    /// Their warnings.
    pub warnings: Vec<Diagnostic>,
    /// Metrics that they have declared.
    pub declared: Vec<String>,
}

/// Instructions for the child.
#[derive(Debug, Serialize, Deserialize)]
struct RehearsalOrder {
    /// The file for the answer.
    answer: PathBuf,
    /// The path shown to hooks as the run directory.
    directory: PathBuf,
    /// The resolved manifest.
    manifest: String,
    /// The plan of the run.
    plan: String,
    seed: u64,
    hooks: Vec<OrderedHook>,
}

/// A hook to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OrderedHook {
    name: String,
    kind: String,
    /// The library's path for messages.
    library: PathBuf,
    /// The file to open.
    file: PathBuf,
    config: String,
}

/// A line of the child's answer; hooks are identified by their index in the order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// The creation of the hook begins.
    Begins(usize),
    /// A metric that a hook declares.
    Publishes(String),
    /// A warning from a hook.
    Warns { hook: usize, message: String },
    /// The hook has been created.
    Created(usize),
    /// The hook or its plugin returned an error.
    Refused {
        hook: usize,
        status: u32,
        message: String,
        place: String,
    },
    /// All hooks have been tried.
    Done,
}

//! Creates a run's hooks in a child process, as `sconce check` does: whatever a constructor does there,
//! crashes and hangs included, is reported as a run would report it.
//!
//! The child is this program's own executable with the hidden subcommand `create-hooks`. It takes its
//! [`Order`] from standard input and leaves one JSON line for each [`Word`] in a file: what it begins,
//! what a hook says, and how each creation ends. Where a hook ends the process, the next child begins
//! with the hook after it. The hooks are never called: there is no run, and they are not dropped.

mod child;
mod parent;

pub(crate) use child::answer;
pub use parent::rehearse;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "create-hooks";

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    /// The file for the words.
    answer: PathBuf,
    /// What hooks see as the run's directory.
    directory: PathBuf,
    /// The resolved manifest.
    manifest: String,
    /// What the run will be.
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

/// A line of the child's answer; hooks by their place in the order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// The hook's constructor begins.
    Begins(usize),
    /// A hook warns.
    Warns { hook: usize, message: String },
    /// The hook is there.
    Created(usize),
    /// The hook, or its plugin, refuses.
    Refused {
        hook: usize,
        status: u32,
        message: String,
        place: String,
    },
    /// All were tried.
    Done,
}

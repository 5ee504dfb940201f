//! Entries of `hooks`, and what they decide for a hook.
//!
//! **Parts**
//! - `hook_entry`: an entry as it is read; `entry_form`: how it is written; `script`: one that is a Python file.
//! - Its keys: `policies`, `isolation`, `priority`; and the manifest's `limits` in time.
//! - `with_hooks`: the JSON Schema of all entries, with the hooks that are there.

pub(super) mod entry_form;
pub(super) mod hook_entry;
pub(super) mod isolation;
pub mod limits;
pub(super) mod policies;
mod priority;
pub(super) mod script;
pub(super) mod with_hooks;

//! Manifests: strict JSON, checked completely before anything else happens, and the entries of hooks in it.
//!
//! What a run's manifest has besides hooks is defined by who reads it: [`load`] reads any type with a JSON Schema.
//!
//! **Parts**
//! - `load` reads files, layers and assignments, with the position of each value ([`JsonSource`]), of which `json` knows.
//! - `entry`: [`HookEntry`], and what entries decide; [`LimitsConfig`].
//! - `check`: checks against a JSON Schema ([`schema_check`]) and of what that can't say, and the words of their problems.
//! - [`diagnostic`]: messages with their place, for people. `terminal`: texts fit for one ([`printable`], [`shell_word`], [`screen`]).
//!   [`digest`]: fingerprints of files.

mod check;
pub mod diagnostic;
pub mod digest;
mod entry;
mod json;
mod load;
mod terminal;

pub use check::{coming_from, example, mentioned, problem, schema_check};
pub use entry::entry_form::EntryForm;
pub use entry::hook_entry::{ENTRY_KEYS, HookEntry, PhaseName};
pub use entry::isolation::{
    CrashPolicy, CrashPolicyName, ISOLATE, Isolation, MemorySize, RestartCount, Sandbox,
    SandboxConfig, SandboxRules,
};
pub use entry::limits::{self, LOAD_LIMIT, LimitsConfig};
pub use entry::policies::{Every, OnCrash, OnError, ReloadPolicy, Unit};
pub use entry::script::Script;
pub use entry::with_hooks::{KnownHook, add_hooks};
pub use json::json_path;
pub use json::origin::AssignmentOrigin;
pub use json::source::JsonSource;
pub use load::document;
pub use load::overlay::{Assignment, Overlay, VARIABLE};
pub use load::{complete_hooks, explained, load};
pub use terminal::{printable, screen, shell_word};

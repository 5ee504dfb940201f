//! Manifests: strict JSON, checked completely before anything else happens, and the entries of hooks in it.
//!
//! What a run's manifest has besides hooks is defined by who reads it: [`load`] reads any type with a JSON Schema.
//!
//! **Parts**
//! - `load` reads files, layers (`overlay`) and assignments (`overrides`); `document`, `syntax` and `comments` read JSON, with the
//!   position of each value ([`JsonSource`]).
//! - [`HookEntry`], and what entries decide: `policies`, `isolation`, `priority`, `script`; [`LimitsConfig`].
//! - [`schema_check`] checks against a JSON Schema, `semantics` what that can't say; `wording`, `right_form`, `misplaced` and
//!   [`coming_from`] make messages of it.
//! - [`diagnostic`]: messages with their place, for people. [`printable`], [`shell_word`], [`screen`]: texts fit for a terminal.
//!   [`digest`]: fingerprints of files.

pub mod coming_from;
mod comments;
pub mod diagnostic;
pub mod digest;
pub mod document;
mod entry_form;
pub mod example;
mod forms;
mod hook_entry;
mod isolation;
pub mod json_path;
pub mod limits;
mod load;
mod misplaced;
mod origin;
mod overlay;
mod overrides;
mod policies;
pub mod printable;
mod priority;
pub mod problem;
mod read;
mod right_form;
pub mod schema_check;
pub mod screen;
mod script;
mod semantics;
pub mod shell_word;
mod source;
mod syntax;
mod whole_number;
mod with_hooks;
mod wording;

pub use entry_form::EntryForm;
pub use hook_entry::{ENTRY_KEYS, HookEntry, PhaseName};
pub use isolation::{
    CrashPolicy, CrashPolicyName, ISOLATE, Isolation, MemorySize, RestartCount, Sandbox,
    SandboxConfig, SandboxRules,
};
pub use limits::{LOAD_LIMIT, LimitsConfig};
pub use load::{complete_hooks, explained, load};
pub use origin::AssignmentOrigin;
pub use overlay::{Assignment, Overlay, VARIABLE};
pub use policies::{Every, OnCrash, OnError, ReloadPolicy, Unit};
pub use script::Script;
pub use source::JsonSource;
pub use with_hooks::{KnownHook, add_hooks};

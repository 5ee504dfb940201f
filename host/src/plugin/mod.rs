//! Plugins: found, inspected without running their code, opened, and their hooks created.
//!
//! A plugin goes through gates, each with an error of its own: its path, the structure of its
//! file, its metadata and their compatibility, its fingerprint ([`inspect()`]); then, with its code
//! running, a trial in another process ([`trial`]), opening, the layout of its types ([`library`]),
//! and the creation of hooks ([`instance`]).

pub mod catalogue;
pub mod compatibility;
pub(crate) mod copy;
pub mod entry_error;
mod file;
mod fingerprint;
pub(crate) mod float_state;
pub mod inspect;
pub mod install;
pub mod instance;
pub mod library;
pub mod refusal;
pub mod resolve;
pub mod search;
mod section;
#[cfg(target_os = "linux")]
mod settings;
mod structure;
mod surroundings;
#[cfg(test)]
mod test_libraries;
pub mod trial;
pub mod trial_fault;

pub use inspect::{Inspected, inspect};
pub use refusal::{Cause, Refusal};
pub use structure::{Format, StructureFault};

//! Plugins: shared libraries with hooks, from the search for a file to created hooks.
//!
//! A plugin passes gates in a fixed order; each one refuses it with its own [`Cause`]. Up to the trial load
//! only the file's bytes are examined, and none of the plugin's code runs.
//!
//! **Parts**
//!
//! - [`search`], [`resolve`]: the directories, the plugins found there, and the choice of the one that
//!   provides a hook
//! - `file`, `structure`, `section`, [`compatibility`], `signature`: the gates of [`inspect()`]: a readable file, an
//!   intact library for this machine, valid metadata, a matching ABI and processor, an unaltered signature
//! - [`trust`]: signatures beside libraries, and the keys that a user trusts
//! - `fingerprint`: the gate for bytes that the manifest pins
//! - `copy`: a sealed copy in memory, so that the bytes inspected are the bytes loaded
//! - [`trial`], [`trial_fault`]: opens libraries in a child process (Linux only)
//! - [`library`]: opens a library in this process and checks the layout of its types, or in C what it returned
//!   (`c_root`); `surroundings`,
//!   `settings` and `float_state` restore process-wide state that its code changed
//! - [`instance`], [`entry_error`]: a created hook, and the errors that its entry points return
//! - [`catalogue`], [`install`]: the hooks and schemas of all plugins found; the installation of plugins
//! - [`refusal`]: all reasons for a refusal, with their messages and hints
//!
//! **Flow** (driven by `session::hooks`)
//!
//! - [`search`] inspects every library in the directories; [`resolve`] picks one for each manifest entry and
//!   checks its fingerprint and the extensions that the hook requires.
//! - `copy` makes the private copies, [`trial`] opens them in a child.
//! - [`library`] opens each copy once and asks it for the schemas of its hooks; [`instance`] creates the
//!   hooks.
//!
//! **States** of a plugin: file found → [`Inspected`] or [`PluginRefusal`] → resolved → copied → tried → opened →
//! hooks created. A failed gate ends in a [`PluginRefusal`]; an opened library is never unloaded.

pub mod blueprint;
mod c_root;
pub mod catalogue;
mod change;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "asks the loader what is loaded")]
pub mod companions;
pub mod compatibility;
pub mod copy;
pub mod entry_error;
mod file;
mod fingerprint;
pub(crate) mod float_state;
pub mod inspect;
pub mod install;
pub mod instance;
pub mod library;
pub mod new_library;
mod opening;
pub mod refusal;
pub mod resolve;
pub mod search;
mod section;
#[cfg(target_os = "linux")]
mod settings;
pub mod signature;
mod structure;
mod surroundings;
#[cfg(test)]
mod test_libraries;
pub mod trial;
pub mod trial_fault;
pub mod trust;

pub use inspect::{Inspected, inspect};
pub use refusal::{Cause, PluginRefusal};
pub use structure::{Format, StructureFault};

//! Plugins: shared libraries with hooks, from the search for a file to created hooks.
//!
//! A plugin passes gates in a fixed order; each one refuses it with its own [`Cause`]. Up to the trial load
//! only the file's bytes are examined, and none of the plugin's code runs.
//!
//! **Parts**
//!
//! - `inventory`: the directories, the plugins found there ([`search`]), the choice of the one that provides a hook ([`resolve`])
//! - `gates`: those of [`inspect()`], and [`refusal`], all reasons with their messages; [`trust`]: the keys that a user trusts
//! - [`copy`](mod@copy): a sealed copy in memory, so that the bytes inspected are the bytes loaded
//! - [`trial`]: opens libraries in a child process (Linux only)
//! - `loading`: opens a [`library`] in this process, and restores what its code changed
//! - [`blueprint`], [`instance`]: how a hook is created, and a created one. [`new_library`]: a file that replaces an opened one
//!
//! **Flow** (driven by `planning`)
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
pub mod copy;
mod gates;
pub mod instance;
mod inventory;
mod loading;
pub mod new_library;
#[cfg(test)]
mod test_libraries;
pub mod trial;

pub use gates::inspect::{Inspected, inspect};
pub use gates::refusal::{Cause, PluginRefusal};
pub use gates::structure::{Format, StructureFault};
pub use gates::{compatibility, inspect, refusal, signature, trial_fault, trust};
pub use inventory::{catalogue, install, resolve, search};
#[cfg(target_os = "linux")]
pub use loading::companions;
pub(crate) use loading::float_state;
pub use loading::{entry_error, library};

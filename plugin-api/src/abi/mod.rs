//! The binary interface between host and plugins: frozen at 1.0, grown by extensions.
//!
//! Hook authors need nothing of this module; [`export_plugin!`](crate::export_plugin) and
//! [`hook`](macro@crate::hook) write what uses it. The rules that keep old plugins working on new
//! hosts, and the reverse, stand in `src/abi/README.md`.

mod error;
mod hook;
mod payload;
mod root;
mod text;
mod view;

pub use error::{ErrorAbi, Status};
pub use hook::{HookAbi, HookTable, SetupAbi};
pub use payload::{CheckpointAbi, FailureAbi, HookTimeAbi, ModuleAbi, OutcomeAbi, ProfileAbi};
pub use root::{HostRoot, PluginRoot, PluginRootRef};
pub use text::TextAbi;
pub use view::ViewAbi;

/// The interface's epoch: plugin and host must agree on it to the number.
///
/// It changes only when a frozen type must change, which no plan foresees.
pub const ABI_EPOCH: u32 = 1;

/// The version of this crate, as the metadata section names it.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

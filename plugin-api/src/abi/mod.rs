//! The binary interface between host and plugins: frozen at 1.0, grown by extensions.
//!
//! Hook authors need nothing from this module; [`export_plugin!`](crate::export_plugin) and
//! [`hook`](macro@crate::hook) generate the code that uses it. `src/abi/README.md` has the rules that keep
//! old plugins working on new hosts and new plugins on old hosts.

mod error;
mod hook;
mod host_root;
mod payload;
mod root;
mod text;
mod view;

pub use error::{ErrorAbi, Refusal, Status};
pub use hook::{HookAbi, HookTable, SetupAbi};
pub use host_root::HostRoot;
pub use payload::{CheckpointAbi, FailureAbi, HookTimeAbi, ModuleAbi, OutcomeAbi, ProfileAbi};
pub use root::{PluginRoot, PluginRootRef};
pub use text::TextAbi;
pub use view::ViewAbi;

/// Epoch of the interface: plugin and host must have the same.
///
/// It changes only if a frozen type has to change, which is not planned.
pub const ABI_EPOCH: u32 = 1;

/// Version of this crate, as recorded in the metadata section.
pub const API_VERSION: &str = env!("CARGO_PKG_VERSION");

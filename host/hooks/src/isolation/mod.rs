//! Hooks in a process of their own: `"isolation": "process"` in a manifest entry.
//!
//! The plugin is unmodified: its library is opened in a child process, this program's own executable with the hidden
//! subcommand `hook-host`, and never in this one. Whatever it does there ends at most that process.
//!
//! **Parts.** `channel` exchanges messages through shared `memory`, which has an area for each direction, and room for tensors; `looking`
//! says when to look out for one before sleeping; `message` is what is written there; `ending` says how a child ended. `parent`
//! starts a child (`process`), stands in for the hook (`proxy`), answers what the hook asks of the host by the host's own tables (`serve`), and
//! lends it tensors (`borrowed`). `child` opens the library (`host`), provides the tables that the hook calls (`tables`), and keeps what they
//! need during a call (`session`); `sandbox` is what it gives up before the library is opened.
//!
//! **Flow.** The two sides take turns. The parent sends an order (open, create, call, save, load, drop) and waits; the
//! child answers with the result, or first asks for something of the host, which the parent answers. A call costs one
//! exchange if the hook asks only what it asked for at this mount point the last time: the answers to that travel with the
//! order (*prefetched*), and what needs no answer (messages, a metric known by name) travels with the result (*posted*).
//!
//! **States.** A child is opened, then has a hook, until it ends. If it ends by itself or is killed at a deadline, the call
//! in progress has not happened: nothing is copied back, and what was posted is dropped.
//!
//! **Trust.** The parent reads from the shared memory only copies of its own, and uses no offset or length of the child's
//! unchecked.

#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod child;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod looking;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod parent;
#[cfg(target_os = "linux")]
mod sandbox;
mod sandbox_log;

#[cfg(target_os = "linux")]
pub use child::answer;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{IsolatedLibrary, answer, crash_report_path, landlock_version};
#[cfg(target_os = "linux")]
pub use parent::{IsolatedLibrary, crash_report_path};
#[cfg(target_os = "linux")]
pub use sandbox::landlock_version;
pub use sandbox_log::SANDBOX_LOG;

/// The hidden subcommand.
pub const COMMAND: &str = "hook-host";

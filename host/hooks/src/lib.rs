//! Hooks from shared libraries in a training loop.
//!
//! The crate knows candle's tensors, and neither layers nor data nor checkpoints. `docs/architecture.md` describes its parts; they are
//! public for the crate `sconce` and the project's tests, and change without notice.
//!
//! **Parts**
//! - [`plugin`]: libraries found, tried, opened, checked and trusted; the hooks that they make.
//! - [`planning`]: from the entries of a document to created hooks.
//! - [`bridge`]: what hooks see of the loop and ask of it: the host's tables of functions. [`metric_board`]: the metrics among it.
//! - [`dispatch`]: the hooks of a run, called at their mount points. [`record`]: what records and checkpoints hold of them.
//! - [`host`]: the hooks of any loop.
//! - [`isolation`]: hooks in processes of their own, and their sandboxes. [`subprocess`], [`expendable`]: such processes.
//! - [`faults`]: crashes, hangs and whoever ends the process are reported by name. [`exit`]: what its exit codes mean.
//! - [`log`], [`clock`], [`launcher`], [`signals`], [`device_facts`], [`version`]: facts of the process and the machine, for hooks and reports.

#[expect(unsafe_code, reason = "the host's functions, called by plugins")]
pub mod bridge;
pub mod clock;
pub mod device_facts;
#[expect(unsafe_code, reason = "calls plugins")]
pub mod dispatch;
pub mod exit;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "signals' default actions")]
pub mod expendable;
pub mod faults;
pub mod hook_id;
pub mod host;
#[expect(
    unsafe_code,
    reason = "memory shared with hooks' processes, and the tables that hooks call there"
)]
pub mod isolation;
pub mod launcher;
pub mod log;
pub mod metric_board;
pub mod planning;
#[expect(unsafe_code, reason = "opens libraries and calls their entries")]
pub mod plugin;
pub mod record;
pub mod signals;
pub mod subprocess;
pub mod version;

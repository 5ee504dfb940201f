//! The parent: starts a hook's process, and stands in for the hook.
//!
//! `process` starts and ends the child, in a restricted `environment` and with a directory of its own for `temporary` files if it has a sandbox,
//! and exchanges messages with it;
//! `output` collects what it prints. `library` opens a plugin there and describes it; `proxy` is the hook's object here, whose
//! functions (`entries`) send orders (with `payload`s); `serve` answers what the child asks, by the host's own functions;
//! `borrowed` are the tensors that the hook was lent; `prefetched` the answers that
//! are given in advance; `crash_report` is the file about an end.

mod borrowed;
mod crash_report;
mod entries;
mod environment;
mod library;
mod orphans;
mod output;
mod payload;
mod prefetched;
mod process;
mod proxy;
mod python;
mod serve;
mod temporary;

pub use crash_report::path as crash_report_path;
pub use library::IsolatedLibrary;

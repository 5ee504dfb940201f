//! Faults at every place where a run changes its directory: kills, power failures, failing system calls.
//!
//! Parts, in the order of use:
//!
//! - [`hooks`]: runs with hooks that keep files or checkpoints.
//! - `listener`: stops system calls of a process, and of all that it starts, before they are made.
//! - `call`: which calls change files, and what in a run's directory they are about; [`Point`] names one by call, path
//!   and ordinal, which are the same in every run, while the order between threads is not.
//! - `tree`: contents of a directory, kept in memory and made again on disk.
//! - `synced`: what a power failure leaves of it.
//! - [`record`]: one run, with a [`Cut`] at each call: the directory as a process killed there leaves it, and as power
//!   failures there may leave it. Only resumed runs have to be started per cut, and only for directories that differ.
//! - [`trial`]: continues from such a directory as a user would, or makes the call fail in a new run, and compares what
//!   is left in the end with an undisturbed run's.
//!
//! It needs Linux 5.9 and the permission to install a seccomp filter whose notifications it answers (no privilege, but
//! some containers forbid it): [`permitted`].

mod call;
pub mod hooks;
mod listener;
mod outcome;
pub mod record;
mod synced;
mod tables;
mod tree;
pub mod trial;

pub use call::Point;
pub use listener::permitted;
pub use outcome::{Outcome, Tally};
pub use record::{Cut, Recording};
pub use trial::{ENDS, End, Failing, Replaced, Trial};

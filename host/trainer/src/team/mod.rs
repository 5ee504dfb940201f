//! The ranks of a run: processes that train together, on one machine or many.
//!
//! **Parts**
//!
//! - `meeting`: what ranks tell `sconce launch`, by files
//! - [`open()`]: connects this process with the others, by a transport that a plugin offers (`found`, `opened`)
//! - `transport`: what moves bytes, by a plugin (`sconce.transport/1`); `waiting`: the time limit of its calls;
//!   [`check()`]: whether it delivers the right bytes, for `sconce team`
//! - `pair`: whether launcher and library are of the same MPI, for `sconce env`; `machine`: its name
//! - `sync`: [`Team`], the ranks and how they synchronise; `header`: what every synchronisation begins with;
//!   `error`: why ranks can't go on together
//! - `exchanged`: what batch norms and hooks exchange
//! - `sum`: sums of gradients, with the same bits on any number of ranks; `gpus`: the ranks' GPUs, connected by NCCL, where the
//!   sums can stay there
//!
//! **Flow.** All ranks do the same in the same order. Every synchronisation begins with headers of one size, so that a
//! rank that has failed takes part in whatever the others do next: they learn its error and end too. What follows
//! depends on what all have said.

mod check;
mod error;
mod exchanged;
pub mod found;
mod gpus;
mod header;
pub mod machine;
#[cfg_attr(not(unix), allow(dead_code, reason = "read by `sconce launch`"))]
pub mod meeting;
mod open;
#[expect(unsafe_code, reason = "calls a plugin's table")]
mod opened;
pub mod pair;
mod sum;
mod sync;
#[cfg(test)]
mod threads;
mod transport;
mod waiting;

pub use crate::launcher::{Launch, Launcher};
pub use check::{CheckTimes, check};
pub use error::TeamError;
pub use gpus::{Gpus, connect as connect_gpus};
pub use header::Purpose;
pub use open::open;
pub use sum::{NodeNote, SumError, Summation};
pub use sync::{Heard, Said, Team};
pub use transport::{Transport, TransportError};

#[cfg(test)]
mod tests;

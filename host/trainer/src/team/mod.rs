//! The ranks of a run: processes that train together, on one machine or many.
//!
//! **Parts**
//!
//! - `meeting`: what ranks tell `sconce launch`, by files
//! - `transport`: what moves bytes, by a plugin (`sconce.transport/1`); [`open()`]: connects this process with the others
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

mod error;
mod exchanged;
mod gpus;
mod header;
pub mod machine;
#[cfg_attr(not(unix), allow(dead_code, reason = "read by `sconce launch`"))]
pub mod meeting;
pub mod pair;
mod sum;
mod sync;
#[cfg(test)]
mod threads;
mod transport;

pub use crate::launcher::{Launch, Launcher};
pub use error::TeamError;
pub use gpus::{Gpus, connect as connect_gpus};
pub use header::Purpose;
pub use sum::{NodeNote, SumError, Summation};
pub use sync::{Heard, Said, Team};
pub use transport::{CheckTimes, Transport, TransportError, check, found, open};

#[cfg(test)]
mod tests;

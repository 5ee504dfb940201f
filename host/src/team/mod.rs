//! The ranks of a run: processes that train together, on one machine or many.
//!
//! **Parts**
//!
//! - `transport`: what moves bytes, by a plugin (`sconce.transport/1`)
//! - `sync`: [`Team`], the ranks and how they synchronise; `header`: what every synchronisation begins with;
//!   `patience`: how long a rank waits; `error`: why ranks can't go on together
//! - `sum`: sums of gradients, with the same bits on any number of ranks
//!
//! **Flow.** All ranks do the same in the same order. Every synchronisation begins with headers of one size, so that a
//! rank that has failed takes part in whatever the others do next: they learn its error and end too. What follows
//! depends on what all have said.

mod error;
mod header;
mod patience;
mod sum;
mod sync;
#[cfg(test)]
mod threads;
mod transport;

pub use error::TeamError;
pub use header::Purpose;
pub use sum::{NodeNote, SumError, Summation};
pub use sync::{Heard, Said, Team};
pub use transport::{Transport, TransportError};

#[cfg(test)]
mod tests;

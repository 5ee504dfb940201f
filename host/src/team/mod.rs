//! The ranks of a run: processes that train together, on one machine or many.
//!
//! **Parts**
//!
//! - `launcher`: which program started this process, and how many more
//! - [`open()`]: connects this process with the others, by a transport that a plugin offers (`found`, `opened`)
//! - `transport`: what moves bytes, by a plugin (`sconce.transport/1`)
//! - `pair`: whether launcher and library are of the same MPI, for `sconce env`
//! - `machine`: its name
//! - `waiting`: the time limit of its calls
//! - [`check()`]: whether it delivers the right bytes, for `sconce team`

mod check;
pub(crate) mod found;
pub(crate) mod launcher;
pub(crate) mod machine;
mod open;
#[expect(unsafe_code, reason = "calls a plugin's table")]
mod opened;
pub(crate) mod pair;
mod transport;
mod waiting;

pub use check::{CheckTimes, check};
pub use launcher::{Launch, Launcher};
pub use open::open;
pub use transport::{Transport, TransportError};

//! Transports: what moves bytes between ranks, offered by plugins (`sconce.transport/1`).
//!
//! - `interface`: what a transport does
//! - [`found`]: plugins with transports; `opened`: one of theirs; [`open()`]: that of a run; `waiting`: the time limit of its calls
//! - [`check()`]: whether it delivers the right bytes, for `sconce team`

mod check;
pub mod found;
mod interface;
mod open;
#[expect(unsafe_code, reason = "calls a plugin's table")]
mod opened;
pub(in crate::team) mod waiting;

pub use check::{CheckTimes, check};
pub use interface::{Transport, TransportError};
pub use open::open;

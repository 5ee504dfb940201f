//! The ranks of a run: processes that train together, on one machine or many.
//!
//! **Parts**
//!
//! - `transport`: what moves bytes, by a plugin (`sconce.transport/1`)

mod transport;

pub use transport::{Transport, TransportError};

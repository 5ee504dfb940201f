//! The child: opens one library, creates one hook, and calls it when told to.
//!
//! `host` is the loop that carries out orders; `tables` are the functions that the hook calls, which ask the parent;
//! `session` has what they share: the channel, the prefetched answers of the call, and memory for what the hook is lent.

mod device;
mod gpu;
mod host;
mod retain;
mod session;
mod tables;
mod tensors;
mod values;
mod vectors;

pub use host::answer;

//! The child: opens one library, creates one hook, and calls it when told to.
//!
//! `host` is the loop that carries out orders; [`Child`](tables::Child) is what the hook calls, and asks the parent;
//! `session` has what its functions share: the channel, the prefetched answers of the call, and memory for what the hook is lent.

mod host;
mod session;
mod tables;
mod tensors;
mod values;

pub use host::answer;

//! Requests of hooks, of other ranks and from outside: served at the points where that is safe.

pub(in crate::run) mod between_iterations;
pub(in crate::run) mod serve;

//! Requests of hooks, of other ranks and from outside: served at the points where that is safe.

pub(in crate::run) mod outside_requests;
pub(in crate::run) mod serve;
pub(in crate::run) mod vote;

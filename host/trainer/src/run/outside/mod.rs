//! Where requests from outside come from, who observes the run, and what hooks are told of it.

pub(in crate::run) mod facts;
pub(in crate::run) mod interrupt;
pub(in crate::run) mod observer;
pub(in crate::run) mod reloads;
pub(in crate::run) mod remote;
pub(in crate::run) mod sources;

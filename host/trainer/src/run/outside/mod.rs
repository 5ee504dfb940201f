//! Where requests from outside come from, and who observes the run.

pub(in crate::run) mod interrupt;
pub(in crate::run) mod observer;
pub(in crate::run) mod reloads;
pub(in crate::run) mod remote;
pub(in crate::run) mod sources;

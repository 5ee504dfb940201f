//! What comes of a run: how it has ended, and its results.

pub(in crate::run) mod report;
pub(in crate::run) mod results;

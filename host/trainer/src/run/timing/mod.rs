//! Where the time goes, in passes and outside of them.

pub(in crate::run) mod costs;
pub(in crate::run) mod passes;
pub(in crate::run) mod profile;
pub(in crate::run) mod wall_time;

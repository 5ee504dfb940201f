//! Runs as their directories record them (`past_run`): listed (`runs`) and compared (`compare`).

pub(in crate::cli) mod compare;
pub(in crate::cli) mod past_run;
pub(in crate::cli) mod runs;

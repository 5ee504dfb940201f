//! Runs of earlier: listed and compared.

pub(in crate::cli) mod compare;
pub(in crate::cli) mod past_run;
pub(in crate::cli) mod runs;

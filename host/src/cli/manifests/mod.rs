//! Commands that write a manifest, or look at what one describes without training.

pub(in crate::cli) mod check;
pub(in crate::cli) mod demo;
pub(in crate::cli) mod new_run;
pub(in crate::cli) mod schema;
pub(in crate::cli) mod summary;

//! This process: its arguments, its environment, its stack, and signals to it and to those that it has started.

pub(in crate::cli) mod near_miss;
#[cfg(unix)]
pub(in crate::cli) mod passed_on;
pub(in crate::cli) mod paths;
pub(in crate::cli) mod signals;
pub(in crate::cli) mod stack;
pub(in crate::cli) mod variables;

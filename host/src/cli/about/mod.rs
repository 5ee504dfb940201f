//! Commands about the program itself: its documentation, its environment, what shells complete, and what to do first.

pub(in crate::cli) mod docs;
pub(in crate::cli) mod env;
pub(in crate::cli) mod shell;
pub(in crate::cli) mod welcome;

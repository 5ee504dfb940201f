//! Hooks that get new instances in mid-run: after their process has ended, or from a new library.

pub(in crate::run) mod recreate;
pub(in crate::run) mod replace_library;

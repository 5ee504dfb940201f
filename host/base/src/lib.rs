//! What all crates of the host need, and none of them is about.
//!
//! **Parts**
//! - [`regular_file`]: reading files that may be anything, within the [`memory_limit`]; [`files`]: writing them whole or not at all;
//!   [`held_directory`]: writing a run's into the directory in which it began.
//! - [`exact`]: floating-point numbers that survive JSON bit for bit.
//! - [`patterns`], [`nearest`]: patterns of names, and suggestions for mistyped names.

pub mod exact;
pub mod files;
pub mod held_directory;
pub mod memory_limit;
pub mod nearest;
pub mod patterns;
pub mod regular_file;

//! What all crates of the host need, and none of them is about.
//!
//! **Parts**
//! - [`regular_file`]: reading files that may be anything, within the [`memory_limit`]; [`files`]: writing them whole or not at all.
//! - [`exact`]: floating-point numbers that survive JSON bit for bit.
//! - [`patterns`], [`nearest`]: patterns of names, and suggestions for mistyped names.

pub mod exact;
pub mod files;
pub mod memory_limit;
pub mod nearest;
pub mod patterns;
pub mod regular_file;

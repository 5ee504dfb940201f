//! Samples drawn from a seed, with nothing to download: points (`two_moons`, `regression`), images (`synthetic_digits`) and sentences
//! (`grammar`). `range` checks their options.

pub(super) mod grammar;
mod range;
pub mod regression;
pub(super) mod synthetic_digits;
pub mod two_moons;

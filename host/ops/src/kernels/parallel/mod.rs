//! Parallel regions, and the threads that they run on.
//!
//! - [`region`]: how work is partitioned and scheduled; `inside` keeps regions from nesting
//! - `pool`: the worker threads; `bench` leaves out workers that cost more than they save, and `courtesy` sets their scheduling policy
//! - [`threads`]: how many threads are requested, usable and started

mod bench;
mod courtesy;
mod inside;
mod pool;
pub mod region;
pub mod threads;

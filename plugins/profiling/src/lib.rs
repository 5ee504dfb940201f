//! Hooks that measure where time and memory go:
//!
//! | hook | what it reports |
//! |---|---|
//! | `iteration-timer` | how long iterations take, and waiting for their data |
//! | `throughput` | samples and tokens per second |
//! | `profile` | each pass's time by data, forward, loss, backward, update and hooks |
//! | `memory` | the resident set by mount point and phase |
//! | `trace` | a timeline of chosen iterations, for Perfetto |

#![forbid(unsafe_code)]

mod iteration_timer;
mod memory;
mod profile;
mod resident;
mod stopwatch;
mod throughput;
mod times;
mod trace;

use iteration_timer::IterationTimer;
use memory::Memory;
use profile::ProfileHook;
use sconce_plugin_api::prelude::*;
use throughput::Throughput;
use trace::Trace;

export_plugin!(IterationTimer, Throughput, ProfileHook, Memory, Trace);

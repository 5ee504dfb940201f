//! Sconce: a training host for candle models, with hooks from shared libraries.
//!
//! The binary is this library's [`cli::main`] and an allocator. A program with a task of its own
//! uses the same parts: a [`task::Task`], an [`optim::Optimizer`], hooks from
//! [`session`], and a [`run::Trainer`] that brings them together.
//!
//! | module | what |
//! |---|---|
//! | [`manifest`] | the run manifest: read, checked, resolved |
//! | [`plugin`] | plugins: found, inspected without running their code, opened |
//! | [`dispatch`] | the order of hooks at each mount point, their calls, their faults |
//! | [`faults`] | what a hook can do to the whole process: crashes, exits, hangs |
//! | [`bridge`] | the host's side of the boundary: what hooks may ask and read |
//! | [`run`] | the loop |
//! | [`task`], [`nn`], [`loss`], [`metric`], [`data`] | what is trained |
//! | [`parameters`], [`gradients`], [`optim`], [`random`], [`init`] | in which way it can be repeated to the bit |
//! | [`checkpoint`], [`weights`] | a run's state, or its model alone, in a file |
//! | [`predict`] | a model's outputs as people read them |
//! | [`session`] | from a manifest to a run |
//! | [`validate`] | the conformance suite for plugins |

#[expect(unsafe_code, reason = "the host's functions, called by plugins")]
pub mod bridge;
pub mod checkpoint;
#[expect(
    unsafe_code,
    reason = "sets the number of threads before there are any"
)]
pub mod cli;
mod clock;
pub mod diagnostic;
mod digest;
#[expect(unsafe_code, reason = "calls plugins")]
pub mod dispatch;
pub mod exit;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "signals' default actions")]
mod expendable;
pub mod faults;
pub mod files;
pub mod log;
pub mod manifest;
pub mod metric_board;
#[expect(unsafe_code, reason = "opens libraries and calls their entries")]
pub mod plugin;
pub mod predict;
mod printable;
pub mod run;
mod screen;
pub mod session;
mod signals;
mod subprocess;
pub mod task;
mod thousands;
#[cfg_attr(
    not(unix),
    allow(dead_code, reason = "the view is drawn on Unix terminals alone")
)]
pub(crate) mod ui;
pub mod validate;
mod version;
pub mod weights;

pub use sconce_data as data;
pub(crate) use sconce_data::{exact, signature};
pub use sconce_nn as nn;
pub use sconce_nn::{gradients, init, loss, metric, nearest, optim, parameters, patterns};
pub use sconce_ops::{kernels, random};

//! Sconce: a training host for candle models, with hooks from shared libraries.
//!
//! The binary consists of this library's [`cli::main`] and an allocator. A program with its own task uses the same
//! parts: a [`task::Task`], an [`optim::Optimizer`], hooks created by [`session`], and a [`run::Trainer`] that
//! combines them.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the command line, one file per subcommand |
//! | [`manifest`] | the run manifest: parsing, checks, defaults |
//! | [`session`] | everything between a manifest and a run: plugins, data, task, optimizer and hooks |
//! | [`run`] | the training loop |
//! | [`plugin`] | plugins: search, inspection without running their code, opening |
//! | [`dispatch`] | calls of hooks: order at each mount point, filters, faults |
//! | [`bridge`] | the host's functions that hooks call: what they read, publish and request |
//! | [`faults`] | crashes, exits and hangs caused by hooks |
//! | [`task`] | what the loop trains: a model, its data, loss and metrics |
//! | [`checkpoint`], [`weights`] | files of a run's complete state, or of its weights alone |
//! | [`predict`] | a model's outputs in readable form |
//! | [`validate`] | the conformance suite for plugins |
//! | [`diagnostic`], [`log`], [`exit`] | error messages, log messages, exit codes |
//! | [`metric_board`], [`files`] | metrics of all phases, atomic writing of files |
//!
//! Three crates below this one are re-exported here:
//!
//! | crate | here | contents |
//! |---|---|---|
//! | `sconce-ops` | [`kernels`], [`random`] | fused operations with gradients, their kernels, random numbers |
//! | `sconce-nn` | [`nn`], [`loss`], [`metric`], [`init`] | layers and models, losses, metrics, initialisation |
//! | | [`parameters`], [`gradients`], [`optim`] | named parameters, their gradients, optimizers |
//! | `sconce-data` | [`data`] | reading, splitting, normalising and batching of data |

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
mod shell_word;
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

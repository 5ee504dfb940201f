//! Sconce: a training host for candle models, with hooks from shared libraries.
//!
//! The binary consists of this library's [`cli::main`] and an allocator. A program with its own task calls
//! [`cli::main_with`] with a function that builds it; everything that such a program needs is here:
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | the command line, one file per subcommand |
//! | [`manifest`] | the run manifest: parsing, checks, defaults |
//! | [`session`] | everything between a manifest and a run: plugins, data, task, optimizer and hooks |
//! | [`task`] | what the loop trains: a model, its data, loss and metrics |
//! | [`run`] | the trainer and its report |
//! | [`data`] | reading, splitting, normalising and batching of data (the crate `sconce-data`) |
//! | [`nn`] | layers, models, losses, metrics, optimizers (the crate `sconce-nn`) |
//! | [`parameters`] | named parameters |
//!
//! The other modules are the host's own and hidden here: `docs/architecture.md` describes them. They are public for
//! the project's tests, and change without notice.

mod allocator;
#[expect(
    unsafe_code,
    reason = "sets the number of threads before there are any"
)]
pub mod cli;
#[doc(hidden)]
pub mod embedded;
pub(crate) mod record;
#[cfg_attr(
    not(unix),
    allow(dead_code, reason = "the view is drawn on Unix terminals alone")
)]
pub(crate) mod ui;
#[doc(hidden)]
pub mod validate;

pub use sconce_data as data;
pub(crate) use sconce_data::signature;
#[cfg(target_os = "linux")]
pub(crate) use sconce_hooks::expendable;
#[doc(hidden)]
pub use sconce_hooks::{bridge, dispatch, exit, log, plugin, subprocess};
pub(crate) use sconce_hooks::{
    clock, device_facts, faults, hook_id, isolation, launcher, metric_board, signals, version,
};
#[doc(hidden)]
pub use sconce_manifest::diagnostic;
pub(crate) use sconce_manifest::{coming_from, digest, printable, screen, shell_word};
pub use sconce_nn as nn;
pub use sconce_nn::parameters;
#[doc(hidden)]
pub use sconce_nn::{gradients, init, loss, metric, optim};
#[doc(hidden)]
pub use sconce_ops::{kernels, random};
pub(crate) use sconce_trainer::{
    activation_memory, generate, model_directory, predict, team, thousands,
};
#[doc(hidden)]
pub use sconce_trainer::{checkpoint, weights};
pub use sconce_trainer::{manifest, run, session, task};

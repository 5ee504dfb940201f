//! The trainer: from a manifest to a run, and what is left of it.
//!
//! **Parts**
//! - [`manifest`]: what to train, how, and with which hooks. [`session`] creates everything that it names.
//! - [`task`]: what the loop trains. [`run`]: the trainer and its report. [`activation_memory`]: what a step keeps for its backward pass.
//! - [`checkpoint`], [`weights`]: what a run leaves to go on from. [`model_directory`], [`predict`], [`generate`]: what it leaves to be used.
//! - [`adapters`]: training of a little beside a pretrained model.
//! - [`team`]: the ranks of a run that is several processes.
//! - `listed_file`, [`start_failure`], [`thousands`]: files with fingerprints, why a run did not start, numbers for people.

pub mod activation_memory;
pub mod adapters;
pub mod checkpoint;
pub mod generate;
mod listed_file;
pub mod manifest;
pub mod model_directory;
pub mod predict;
pub mod run;
pub mod session;
pub mod start_failure;
pub mod task;
pub mod team;
pub mod thousands;
pub mod weights;

pub(crate) use sconce_data as data;
pub(crate) use sconce_data::signature;
#[cfg(target_os = "linux")]
pub(crate) use sconce_hooks::expendable;
pub(crate) use sconce_hooks::{
    bridge, dispatch, exit, faults, hook_id, launcher, log, metric_board, plugin,
};
pub(crate) use sconce_hooks::{clock, device_facts, isolation, subprocess, version};
pub(crate) use sconce_manifest::{diagnostic, digest, mentioned, printable, screen, shell_word};
pub(crate) use sconce_nn as nn;
pub(crate) use sconce_nn::{gradients, loss, metric, optim, parameters};
pub(crate) use sconce_ops::kernels;

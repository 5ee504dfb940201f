//! Everything a hook author needs to plug into a Sconce training run.
//!
//! A **hook** is an object that the host calls at *mount points* of a training run: before and after the run,
//! each epoch and each batch, and between forward pass, loss, backward pass and update. A **plugin** is a
//! shared library that exports one or more hooks. The host is a prebuilt binary; a plugin may be built with
//! any compiler version, and when either side grows, neither has to be rebuilt.
//!
//! A complete plugin, in a crate with `crate-type = ["cdylib"]`:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//!
//! /// What stands under `config` in the manifest.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(default, deny_unknown_fields)]
//! struct Config {
//!     /// Stop when the validation accuracy reaches this, from 0 to 1.
//!     accuracy: f64,
//! }
//!
//! impl Default for Config {
//!     fn default() -> Self {
//!         Config { accuracy: 0.99 }
//!     }
//! }
//!
//! struct GoodEnough {
//!     accuracy: f64,
//! }
//!
//! #[hook(name = "good-enough", about = "Stops the run when it is good enough.")]
//! impl Hook for GoodEnough {
//!     type Config = Config;
//!
//!     fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(GoodEnough { accuracy: config.accuracy })
//!     }
//!
//!     fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
//!         match task.metric_of(Phase::Val, "accuracy") {
//!             Some(accuracy) if accuracy >= self.accuracy => task.stop("good enough"),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! export_plugin!(GoodEnough);
//! # fn main() {}
//! ```
//!
//! In the manifest: `"hooks": [{"hook": "good-enough", "config": {"accuracy": 0.97}}]`.
//!
//! # Overview
//!
//! - [`Hook`]: the trait to implement; its methods are the mount points. [`hook`](macro@hook) and
//!   [`export_plugin!`]: the macros that make a hook a plugin. [`Priority`]: the order of hooks at a mount
//!   point.
//! - [`Setup`]: what is available when a hook is created. [`Plan`]: epochs, data and parameters known at that
//!   time.
//! - [`TaskView`]: the running task in each call: progress, metrics, tensors, requests. [`tensor`]: views of
//!   parameters, gradients and batches. [`Module`]: a layer in a module hook. [`Threads`]: the host's thread
//!   pool, for expensive work. [`Vectors`]: passes over all parameters or gradients, done by the host. [`Ranks`]: the processes that train together.
//! - [`TaskView::publish`], [`Keep`]: values exchanged between hooks. [`Monitor`]: a metric named in a
//!   configuration; [`Rule`]: whether smaller or greater is better.
//! - [`state`]: serialising a hook's state for checkpoints. [`LogFile`], [`write_atomically`], [`path_inside`],
//!   [`spreadsheet`]: writing files that survive interruption and untrusted names.
//! - [`HookError`], [`bail!`], [`Context`]: error handling.
//! - [`transport`]: what moves bytes between the processes of a run on several machines.
//! - The crate `sconce-plugin-testing`, for a plugin's `[dev-dependencies]`: a test kit that drives a hook through a scripted
//!   run, without a host.
//! - [`abi`], [`ext`], [`metadata`]: the binary interface, for hosts.

// Generated code and `export_plugin!` refer to this crate by its name.
extern crate self as sconce_plugin_api;

#[expect(unsafe_code, reason = "the boundary")]
pub mod abi;
mod checkpoint_ref;
mod error;
#[expect(unsafe_code, reason = "the plugin's entries")]
#[doc(hidden)]
pub mod export;
#[expect(unsafe_code, reason = "the host's tables")]
pub mod ext;
#[expect(unsafe_code, reason = "writes a plugin's errors")]
mod fence;
mod files;
mod hook;
mod log_file;
mod macros;
pub mod metadata;
mod monitor;
mod phase;
mod plan;
mod point;
mod priority;
mod rule;
#[expect(unsafe_code, reason = "reads the host's data")]
mod setup;
pub mod spreadsheet;
pub mod state;
#[expect(unsafe_code, reason = "reads and writes the host's tensors")]
pub mod tensor;
pub mod transport;
#[expect(unsafe_code, reason = "reads the host's data and calls its tables")]
mod view;

pub use checkpoint_ref::CheckpointRef;
pub use error::{Context, HookError, Result};
pub use ext::{
    BEST_CHECKPOINT, Collection, ForwardMode, KEPT_WEIGHTS, Keep, RUN_TIMES, TextRequest,
    WrittenText,
};
pub use files::{path_inside, write_atomically};
pub use hook::{Hook, HookKind, NoConfig};
pub use log_file::{LogFile, LogFileState, Restored};
pub use monitor::{METRIC_FORMAT, Monitor};
pub use phase::Phase;
pub use plan::{ParameterPlan, PhasePlan, Plan};
pub use point::Point;
pub use priority::Priority;
pub use rule::Rule;
pub use sconce_plugin_macros::hook;
pub use setup::Setup;
pub use view::{
    AfterBackward, AfterCycle, AfterEpoch, AfterForward, AfterIter, AfterLoadCheckpoint, AfterLoop,
    AfterLoss, AfterRun, AfterSaveCheckpoint, AfterUpdate, At, AtEpochProfile, BeforeEpoch,
    BeforeIter, BeforeLoop, BeforeRun, BeforeSaveCheckpoint, BeforeUpdate, Checkpoint,
    CheckpointRequest, Device, DeviceTensor, EpochProfile, Failure, ForwardPass, Gpu, GpuSpan,
    Groups, HookTime, Losses, Metrics, Module, ModuleBackward, ModuleFacts, ModuleForward,
    OnException, Origin, Outcome, ParameterGroup, Ranks, Resumed, Screen, Storage, TaskFacts,
    TaskView, Tensors, Threads, Vectors, moment,
};

/// The usual imports of a plugin: `use sconce_plugin_api::prelude::*;`.
///
/// `Deserialize`, `Serialize` and `JsonSchema` come with the derive macros of `serde` and `schemars`; a
/// plugin with a configuration has to list both crates among its own dependencies.
pub mod prelude {
    pub use crate::tensor::{DType, Element, Tensor, TensorMut};
    pub use crate::{
        AfterBackward, AfterCycle, AfterEpoch, AfterForward, AfterIter, AfterLoadCheckpoint,
        AfterLoop, AfterLoss, AfterRun, AfterSaveCheckpoint, AfterUpdate, At, AtEpochProfile,
        BeforeEpoch, BeforeIter, BeforeLoop, BeforeRun, BeforeSaveCheckpoint, BeforeUpdate,
        Checkpoint, CheckpointRef, Collection, Context, EpochProfile, Failure, Groups, Hook,
        HookError, Keep, LogFile, LogFileState, Module, ModuleBackward, ModuleForward, Monitor,
        NoConfig, OnException, Origin, Outcome, Phase, Point, Priority, Ranks, Result, Rule, Setup,
        TaskFacts, TaskView, Threads, bail, export_plugin, hook, path_inside, state,
        write_atomically,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

#[doc(hidden)]
pub mod __private {
    pub use abi_stable::library::{
        __call_root_module_loader, CheckTypeLayout, LibHeader, ROOT_MODULE_LOADER_NAME,
        RootModuleResult,
    };
    pub use abi_stable::prefix_type::PrefixTypeTrait;
    pub use abi_stable::std_types::RString;
}

/// Compiles the README's hook as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles this crate's README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;

/// Compiles the hook of the page about many machines as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../docs/many-machines.md")]
struct ManyMachines;

/// Compiles the cookbook's hooks as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/cookbook.md")]
struct Cookbook;

/// Compiles the hook of the page about GPUs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../docs/gpu.md")]
struct OnGpu;

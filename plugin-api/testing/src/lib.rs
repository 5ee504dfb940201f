//! The test kit: drives a hook through a scripted run, without a host.
//!
//! A [`ScriptedRun`] replaces the host: it creates the hook through the same entry point, calls it at all
//! mount points of a run in the same order, provides the same function tables, and rejects what a host
//! rejects. Nothing is trained: metrics are those of the test's script, and tensors are small and the same in
//! every run. [`Seen`] records what the hook did.
//!
//! In a plugin's `Cargo.toml`:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"] # the second one for tests in `tests/`
//!
//! [dev-dependencies]
//! sconce-plugin-testing = "1.0"
//! serde_json = "1"
//! ```
//!
//! # Examples
//!
//! **When does the hook stop the run?**
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//! use sconce_plugin_testing::ScriptedRun;
//! use serde_json::json;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Config {
//!     /// Stop when the validation accuracy reaches this.
//!     #[schemars(range(min = 0, max = 1))]
//!     accuracy: f64,
//! }
//!
//! struct GoodEnough(f64);
//!
//! #[hook(name = "good-enough", about = "Stops the run when it is good enough.")]
//! impl Hook for GoodEnough {
//!     type Config = Config;
//!
//!     fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(GoodEnough(config.accuracy))
//!     }
//!
//!     fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
//!         match task.metric_of(Phase::Val, "accuracy") {
//!             Some(accuracy) if accuracy >= self.0 => task.stop("good enough"),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! # fn main() -> std::result::Result<(), sconce_plugin_testing::Failed> {
//! let run = ScriptedRun::new()
//!     .epochs(5)
//!     .metric(Phase::Val, "accuracy", |epoch| 0.5 + 0.1 * epoch as f64);
//! let seen = run.drive::<GoodEnough>(json!({"accuracy": 0.75}))?;
//! assert_eq!(seen.stopped_at().unwrap().epoch, 3);
//! assert_eq!(seen.stop_reason(), Some("good enough"));
//!
//! // A configuration out of its range is refused, as in a run.
//! let refused = run.drive::<GoodEnough>(json!({"accuracy": 3})).unwrap_err();
//! assert_eq!(refused.message, "accuracy must be at most 1, found 3");
//! # Ok(())
//! # }
//! ```
//!
//! **What does the hook do to tensors?** With parameters and gradients given by the test:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//! use sconce_plugin_testing::ScriptedRun;
//! use serde_json::Value;
//!
//! /// Halves all gradients.
//! struct Half;
//!
//! #[hook(name = "half", about = "Halves gradients.", ranks = "all")]
//! impl Hook for Half {
//!     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(Half)
//!     }
//!
//!     fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
//!         task.for_each_gradient(|mut gradient| gradient.map::<f32>(|g| g / 2.0))
//!     }
//! }
//!
//! # fn main() -> std::result::Result<(), sconce_plugin_testing::Failed> {
//! let run = ScriptedRun::new()
//!     .epochs(1)
//!     .iterations(1)
//!     .learning_rate(1.0)
//!     .empty_model()
//!     .parameter("w", &[2], &[1.0, 1.0])
//!     .gradient("w", |_iteration| vec![0.5, -2.0]);
//! let seen = run.drive::<Half>(Value::Null)?;
//! assert_eq!(seen.changes()[0].after, [0.25, -1.0]);
//! assert_eq!(seen.parameter("w"), [0.75, 2.0]);
//! # Ok(())
//! # }
//! ```
//!
//! **Does a resumed run continue as if uninterrupted?** [`ScriptedRun::check_resume`] interrupts the run
//! after each iteration in turn, saves, and resumes with a new hook:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//! use sconce_plugin_testing::ScriptedRun;
//! use serde_json::Value;
//!
//! /// Forgets what it has counted.
//! struct Forgetful(u32);
//!
//! #[hook(name = "forgetful", about = "Counts batches.")]
//! impl Hook for Forgetful {
//!     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(Forgetful(0))
//!     }
//!
//!     fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
//!         self.0 += 1;
//!         task.publish_metric("count", f64::from(self.0))
//!     }
//! }
//!
//! let failed = ScriptedRun::new().check_resume::<Forgetful>(Value::Null).unwrap_err();
//! assert!(failed.message.contains("behind iteration 1 and resumed is another"));
//! ```
//!
//! **Does the hook count what all ranks have seen?** [`ScriptedRun::drive_ranks`] drives an instance on each rank, with
//! the batches that the test gives it; what they gather goes from one to the other:
//!
//! ```
//! use sconce_plugin_api::prelude::*;
//! use sconce_plugin_testing::ScriptedRun;
//! use serde_json::json;
//!
//! struct Samples(u64);
//!
//! #[hook(name = "samples", about = "Counts samples.", publishes = ["samples"], ranks = "all")]
//! impl Hook for Samples {
//!     fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
//!         Ok(Samples(0))
//!     }
//!
//!     fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
//!         if task.phase() == Phase::Train && !task.ranks().is_repeated() {
//!             self.0 += task.batch_size();
//!         }
//!         Ok(())
//!     }
//!
//!     fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
//!         if task.phase() == Phase::Train {
//!             let mut samples = [self.0];
//!             task.ranks().sum_u64(&mut samples)?;
//!             task.publish_metric("samples", samples[0] as f64)?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> std::result::Result<(), sconce_plugin_testing::Failed> {
//! let script = |rank| ScriptedRun::new().epochs(1).iterations(4).batch_size(10 + rank);
//! let seen = ScriptedRun::drive_ranks::<Samples>(&json!({}), 3, script)?;
//! assert_eq!(seen[0].metric(Phase::Train, "samples"), [132.0]);
//! assert_eq!(seen[2].metric(Phase::Train, "samples"), [132.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Limitations
//!
//! The kit has no other hooks (except for values that they [publish](ScriptedRun::value)), no `every` and
//! other filters of a manifest entry, no optimizer state, no checkpoint files (checkpoints are kept in
//! memory), and none of the host's own checks of losses and gradients.

mod board;
mod checkpoint;
mod drive;
#[expect(unsafe_code, reason = "plays the host")]
mod driven;
mod driver;
mod failed;
#[expect(unsafe_code, reason = "plays the host")]
mod fake;
mod fake_ranks;
mod place;
mod plan;
mod play;
mod ranks;
mod same;
mod save;
mod schema;
mod script;
mod seen;
mod serve;
mod stage;
#[expect(unsafe_code, reason = "plays the host")]
mod tables;
mod uses;
mod values;

pub use failed::Failed;
pub use place::CallPosition;
pub use script::ScriptedRun;
pub use seen::{Change, Message, Published, RunEnd, Seen, SeenLoss, SeenMetric, SeenRequest};

pub use sconce_plugin_api::ext::{Collection, Level, Request};

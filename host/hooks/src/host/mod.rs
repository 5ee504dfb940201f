//! Hooks for any loop: one that its owner has written, in Rust with candle, or in another language.
//!
//! **Parts.** [`HookSetup`] (`setup`) is what hooks are created from: a document (`document`) that lists them, the parameters, a
//! [`LoopPlan`] (`plan`), what the loop [`Offers`] (`fit`), and the [`Loop`] that serves requests (`requests`).
//! - [`LoopHooks`] (`loop_hooks`): the hooks, called event by event. `pass_times`: where a pass's time goes. `swap`: parameters
//!   swapped for a published set. `states`: what the loop's checkpoints keep of hooks.
//! - [`HookHost`] (`hook_host`): the same for candle, whose state is in `inner`: a [`Pass`] (`pass`) gives batches, each with a [`Step`] (`step`);
//!   `accumulation` has the gradients of an update.
//! - `error`: what can go wrong.
//!
//! **Flow.** `HookHost::from_file` → `start`, which refuses hooks that ask for what the loop can't do → passes and steps → `finish`.
//! Each step goes to [`Followed`](sconce_lifecycle::Followed), which checks it against the lifecycle's order and counts, then to the
//! [`Dispatcher`](crate::dispatch::Dispatcher), then what hooks have requested is served.

mod accumulation;
mod document;
mod error;
mod fit;
mod hook_host;
mod inner;
mod loop_hooks;
mod pass;
mod pass_times;
mod plan;
mod requests;
mod setup;
mod states;
mod step;
#[expect(unsafe_code, reason = "exchanges the elements of tensors in place")]
mod swap;

pub use document::{HooksDocument, json_schema};
pub use error::{HostError, HostResult};
pub use fit::{Misfit, Needs, Offers};
pub use hook_host::HookHost;
pub use loop_hooks::LoopHooks;
pub use pass::{Batch, IntoBatch, Pass};
pub use plan::{GroupPlan, LoopPlan, ModulePlan};
pub use requests::{Follows, Loop, NoRequests, Served};
pub use setup::HookSetup;
pub use step::Step;

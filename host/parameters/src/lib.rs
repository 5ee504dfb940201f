//! What of a model is trained, and what hooks see of it: named parameters, their gradients and groups.
//!
//! **Parts**
//! - `registry`: [`Parameters`], the registry of a model's parameters and buffers, in the order in which the model registers them;
//!   `parameter_kind`; [`init`], their initial values; `memory_budget`, what they need, counted before anything is allocated.
//! - [`adapters`]: training of a little beside a model that is held.
//! - [`gradients`]: an update's [`Gradients`] in the registry's order, and the audit of the first ones.
//! - [`groups`]: parameter groups of an optimizer, with learning rates that hooks read and set.

pub mod adapters;
pub mod gradients;
pub mod groups;
pub mod init;
mod memory_budget;
mod parameter_kind;
mod registry;

pub use adapters::ParameterRole;
pub use gradients::Gradients;
pub use memory_budget::{MemoryBudget, TooLarge};
pub use parameter_kind::ParameterKind;
pub use registry::{LearningRateScale, Parameter, ParameterScope, Parameters, ParametersError};

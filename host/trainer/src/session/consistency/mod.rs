//! Whether the hooks and settings of a manifest are consistent with its task.
//!
//! **Parts.** `references`: metrics, modules and data sets that hook entries name; `given_loss`: a loss that is left to hooks. Both refuse.
//! `advice` warns of settings without effect, or with another than was meant.

mod advice;
mod given_loss;
mod references;

pub(super) use advice::advice;
pub(super) use given_loss::check_given_loss;
pub use references::{OpenReferences, check_references};

//! Training of adapters beside a pretrained model that is held: from the manifest's `adapt` to the files of a run.
//!
//! **Parts**
//! - `plan`: which modules get adapters, and whether all that is named can have one.
//! - `base`: the fingerprint of what is held, by which a resumed run knows it.
//! - `merge`: the model with its adapters added to the weights they belong to. `file_merge`: the same, from file to file.
//! - `peft`: the files of the library PEFT, written and read.
//! - `results`: what a run leaves.
//!
//! **Flow.** The plan is given to the registry before the model is built: its linear layers register adapters. Then the initial
//! weights are loaded, a head that they lack is released, magnitudes are set to the lengths of the
//! weights' rows, PEFT's files are loaded if the manifest names any, and the rest is
//! fingerprinted. Checkpoints hold what is not of the base.

mod base;
mod error;
mod file_merge;
mod merge;
mod peft;
mod plan;
mod results;
#[cfg(test)]
mod tests;

pub use base::fingerprint;
pub use error::AdapterError;
pub use file_merge::{MergedFiles, merge_files};
pub use merge::{begin_magnitudes, merged};
pub use peft::{ADAPTER, ADAPTER_CONFIG, PeftConfig, load, write};
pub use plan::{check, plan};
pub use results::save_results;

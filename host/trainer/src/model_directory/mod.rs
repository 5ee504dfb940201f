//! What predictions need of a trained model: the training data, the manifest and its plugins are not among it.
//!
//! **Parts**
//! - `facts`: the architecture, and how it computed ([`ModelFacts`]).
//! - `description`: `model.json`, with the facts and the sizes and hashes of all other files.
//! - `write`: the directory [`MODEL`] that a run leaves, for its kept weights. `readme`: its page for people.
//! - `saved_model`: a model that was saved so, or in a checkpoint, and the one that is built of it.
//! - `export`: such a model as a directory of another library.
//! - `error`: [`ModelDirectoryError`].
//!
//! **Flow.** At a run's end [`write()`] puts all files into a new directory, which then takes the place of an earlier one at
//! once. [`SavedModel::open`] reads `model.json` first and verifies every other file while it is read; the parameters that
//! the description asks for are counted and compared with those of the weights before anything is allocated.
//!
//! Nothing in such a directory is trusted: its files have fixed names, and sizes come from the weights themselves.

mod description;
mod error;
mod export;
mod facts;
mod readme;
mod saved_model;
mod write;

use description::DESCRIPTION;
pub use error::ModelDirectoryError;
pub use export::{ExportedDirectory, ModelExportError};
pub use facts::ModelFacts;
pub use saved_model::{SavedModel, TrainedModel};
pub use write::{Trained, write};

/// Name of the directory in that of a run.
pub const MODEL: &str = "model";

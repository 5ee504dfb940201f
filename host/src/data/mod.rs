//! Data: read, split, normalised, and handed out in batches.

mod config;
mod dataset;
mod error;
mod idx;
mod images;
mod load;
pub mod order;
mod split;
mod synthetic_digits;

use std::sync::Arc;

use sconce_plugin_api::Phase;

pub use config::{DataConfig, IdxConfig, Portion, Split, SyntheticDigitsConfig};
pub use dataset::{Batch, Dataset, Inputs, Targets};
pub use error::Error;
pub use images::{ImageDataset, Images};
pub use load::load;

/// The data of a task's phases.
#[derive(Clone)]
pub struct Splits {
    /// What is trained on.
    pub train: Arc<dyn Dataset>,
    /// What is validated on during the training.
    pub val: Option<Arc<dyn Dataset>>,
    /// What is tested on at the end.
    pub test: Option<Arc<dyn Dataset>>,
}

impl Splits {
    /// The data of a phase, or nothing where there is none.
    pub fn of(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        match phase {
            Phase::Train => Some(Arc::clone(&self.train)),
            Phase::Val => self.val.clone(),
            Phase::Test => self.test.clone(),
            _ => None,
        }
    }
}

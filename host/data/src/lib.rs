//! Data: read, split, normalised, and handed out in batches.
//!
//! Without `unsafe`: batches are prepared by several threads, and so the compiler proves them free of data
//! races.
#![forbid(unsafe_code)]

pub mod arrays;
mod cifar;
mod config;
pub mod csv;
mod dataset;
mod error;
pub mod exact;
mod file;
mod first;
mod grammar;
mod idx;
mod image_folder;
mod images;
mod load;
mod loader;
mod numbers;
pub mod order;
mod pixels;
mod portion;
pub mod regression;
pub mod regular_file;
pub mod signature;
mod split;
mod synthetic;
mod synthetic_digits;
mod text;
pub mod two_moons;

use std::sync::Arc;

pub use cifar::{CifarConfig, CifarError, CifarLabels, CifarVersion};
pub use config::{DataConfig, IdxConfig, SyntheticDigitsConfig};
pub use dataset::{Batch, Dataset, Origin};
pub use error::Error;
pub use first::First;
pub use grammar::GrammarConfig;
pub use image_folder::{ColourMode, ImageFolderConfig, ImageFolderError, Undecodable};
pub use images::{
    AugmentConfig, CropConfig, Flip, ImageDataset, Images, ImagesError, MeanDeviation,
    NormaliseConfig, NormaliseRule,
};
pub use load::load;
pub use loader::{Loader, Preparation};
pub use portion::{Portion, Split};
pub use sconce_nn::{Inputs, Targets};
pub use text::{TextConfig, TextDataset, TextError, TextPart, TextUnit, Unknown, Vocabulary};

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

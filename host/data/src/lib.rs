//! Data sets: reading, splitting, normalisation, augmentation and loading in batches.
//!
//! A source (files, or samples drawn from a seed) is checked before training. Everything random is
//! keyed by the seed, and augmentation also by epoch and sample, so that runs can be repeated and
//! resumed. No `unsafe`: several threads prepare batches, and the compiler rules out data races.
//!
//! **Parts**
//! - `config`, `portion`: sources in the manifest, and the part for validation and test.
//! - `load`: from the manifest to the data sets of the phases, [`Splits`].
//! - `idx`, `cifar`, `image_folder`, `synthetic_digits`: sources of images. `images` normalises and
//!   augments them; `pixels` keeps their bytes in memory, or reads them on demand; `image_transform` reads others like them.
//! - [`csv`], [`arrays`], [`two_moons`], [`regression`]: sources of numbers, stored by `numbers`.
//! - `text`, `grammar`: sources of tokens, of a `vocabulary`.
//! - `split`: random or stratified selection of validation and test samples.
//! - [`preprocessing`]: what is learnt from the training data, kept with a model to read other data. `fitted`: one kind's
//!   data sets with what was learnt; `input`: other data, opened, with remarks on them; `shape`, `target_names`: shapes and targets
//!   in its file.
//! - [`csv::survey`], [`arrays::survey_npy`], [`survey_images`], [`survey_labels`]: what data have in them, for a first manifest.
//! - `dataset`, `first`: the interface [`Dataset`], and a limit on the number of samples; `class_counts`: the samples of
//!   each class.
//! - [`order`], `loader`: order of an epoch's samples, and batches prepared in the background.
//! - `memory`, `watched_file`: what stays in files and is read on demand, and that files stay the same.
//! - `data_files`: which files were read, by the hashes of their contents.
//! - `file`, [`safetensors_file`], [`signature`], `synthetic`, `error`: reading of files and
//!   detection of other formats, exact numbers in JSON, range checks, error messages; `printable`, their texts.
//!
//! **Flow**
//! 1. [`load()`] calls the source's `load`, which reads or draws the samples, splits them, fits
//!    normalisation to the training samples, and returns [`Splits`].
//! 2. For each epoch, [`order::training`] gives a permutation of the samples. A [`Loader`] gets it with
//!    the batches' ranges; its workers call [`Dataset::gather`] and stay at most
//!    [`Preparation::ahead`] batches ahead.
//! 3. [`Loader::next_batch`] returns the batches in order, whichever thread prepared them.
//! 4. For predictions, [`Preprocessing::open`] reads other data as the training's, without these.
#![forbid(unsafe_code)]

pub mod arrays;
mod cifar;
mod class_counts;
mod config;
pub mod csv;
mod data_files;
mod dataset;
mod error;
mod file;
mod first;
mod fitted;
#[cfg(test)]
mod golden_tests;
mod grammar;
mod idx;
mod image_folder;
mod image_transform;
mod images;
mod input;
mod load;
mod loader;
mod memory;
mod numbers;
#[cfg(test)]
mod on_demand_tests;
pub mod order;
mod pixels;
mod portion;
pub mod preprocessing;
mod printable;
#[cfg(test)]
mod real_data;
pub mod regression;
pub mod safetensors_file;
mod shape;
pub mod signature;
mod split;
mod synthetic;
mod synthetic_digits;
mod target_names;
mod target_scaling;
mod text;
pub mod two_moons;
mod vocabulary;
mod watched_file;

use std::sync::Arc;

pub use cifar::{CifarConfig, CifarLabels, CifarVersion};
pub use class_counts::class_counts;
pub use config::{DataConfig, IdxConfig};
pub use data_files::{
    ContentHash, DataFile, HashOf, PerPart, SplitRecord, file_changes, listing, with_listed_members,
};
pub use dataset::{Batch, Dataset, MixedTargets, SampleOrigin};
pub use error::{CifarError, DataError, ImageFolderError, ImagesError, TextError, Undecodable};
pub use first::First;
pub use fitted::Fitted;
pub use grammar::GrammarConfig;
pub use idx::survey_labels;
pub use image_folder::{ColourMode, ImageFolderConfig, ImageSurvey, Resize, survey_images};
pub use image_transform::ImageTransform;
pub use images::{
    AugmentConfig, ColourConfig, CropConfig, CutmixConfig, EraseConfig, Flip, ImageDataset, Images,
    MeanDeviation, MixupConfig, NormaliseConfig, NormaliseRule, RandAugmentConfig, RotateConfig,
};
pub use load::load;
pub use loader::{Loader, Preparation};
pub use memory::MemoryUse;
pub use portion::{Portion, Split};
pub use preprocessing::{Preprocessing, TrainingData, Transform};
pub use sconce_nn::{Inputs, Targets};
pub use synthetic_digits::SyntheticDigitsConfig;
pub use target_scaling::{TargetScale, TargetScaling};
pub use text::{TextConfig, TextDataset, TextPart, TextTransform};
pub use vocabulary::{TextUnit, Unknown, Vocabulary};

/// The data sets of a task's phases.
#[derive(Clone)]
pub struct Splits {
    /// Training data.
    pub train: Arc<dyn Dataset>,
    /// Data for validation during training.
    pub val: Option<Arc<dyn Dataset>>,
    /// Data for the test at the end.
    pub test: Option<Arc<dyn Dataset>>,
    /// What was learnt from the training data, for other data.
    pub preprocessing: Arc<Preprocessing>,
    /// Files that they were read from; none for generated data.
    pub files: Vec<DataFile>,
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Data sets: reading, splitting, normalisation, augmentation and loading in batches.
//!
//! A source (files, or samples drawn from a seed) is checked before training. Everything random is
//! keyed by the seed, and augmentation also by epoch and sample, so that runs can be repeated and
//! resumed. No `unsafe`: several threads prepare batches, and the compiler rules out data races.
//!
//! **Parts**
//! - `load`: from the manifest to the data sets of the phases, [`Splits`]; [`DataConfig`].
//! - `images`: sources of images, in IDX files, CIFAR's, or directories, normalised and augmented.
//! - `numbers`: [`arrays`] and [`csv`], tables. `text`: tokens of a `vocabulary`. `generated`: points ([`two_moons`],
//!   [`regression`]), digits and sentences drawn from a seed. `tokens`: files of tokens, and the [`Tokenizer`] that makes them.
//! - `split`: random or stratified selection of validation and test samples; `targets`: their names and scaling.
//! - [`preprocessing`]: what is learnt from the training data, kept with a model to read other data.
//! - [`csv::survey`], [`arrays::survey_npy`], [`survey_images`], [`survey_labels`]: what data have in them, for a first manifest.
//! - `dataset`: the interface [`Dataset`]. `batches`: [`order`] of an epoch's samples, and batches prepared in the background.
//! - `files`: what is read from them, at once or on demand ([`safetensors_file`], [`signature`]), and which were read.
//! - `error`: all messages. `parallel`: work on many items by several threads.
//!
//! **Flow**
//! 1. [`load()`] calls the source's `load`, which reads or draws the samples, splits them, fits
//!    normalisation to the training samples, and returns [`Splits`].
//! 2. For each epoch, [`batches::order::training`] gives a permutation of the samples. A [`Loader`] gets it with
//!    the batches' ranges; its workers call [`Dataset::gather`] and stay at most
//!    [`Preparation::ahead`] batches ahead.
//! 3. [`Loader::next_batch`] returns the batches in order, whichever thread prepared them.
//! 4. For predictions, [`Preprocessing::open`] reads other data as the training's, without these.
#![forbid(unsafe_code)]

mod batches;
mod dataset;
mod error;
mod files;
mod generated;
mod images;
mod load;
mod numbers;
mod parallel;
pub mod preprocessing;
mod split;
mod targets;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod vocabulary;

use std::sync::Arc;

pub use batches::loader::{Loader, Preparation};
pub use batches::order;
pub use dataset::class_counts::class_counts;
pub use dataset::first::First;
pub use dataset::fitted::Fitted;
pub use dataset::{Batch, Dataset, MixedTargets, SampleOrigin, ViewGroup};
pub use error::{
    CifarError, DataError, ImageFolderError, ImagesError, TextError, TokensError, Undecodable,
};
pub use files::data_files::{
    ContentHash, DataFile, HashOf, PerPart, SplitRecord, file_changes, listing, with_listed_members,
};
pub use files::memory::MemoryUse;
pub use files::provided::{Content, Provided, ProvidedArray, ProvidedFile};
pub use files::{safetensors_file, signature};
pub use generated::grammar::GrammarConfig;
pub use generated::synthetic_digits::SyntheticDigitsConfig;
pub use generated::{regression, two_moons};
pub use images::cifar::{CifarConfig, CifarLabels, CifarVersion};
pub use images::idx::survey_labels;
pub use images::image_folder::{ColourMode, ImageFolderConfig, ImageSurvey, Resize, survey_images};
pub use images::transform::ImageTransform;
pub use images::{
    AugmentConfig, BlurConfig, ColourConfig, CropConfig, CutmixConfig, EraseConfig, Flip,
    GreyConfig, ImageDataset, ImageOptions, ImageTargets, Images, MeanDeviation, MixupConfig,
    NormaliseConfig, NormaliseRule, RandAugmentConfig, RotateConfig, SolariseConfig, ViewConfig,
    ViewCropConfig,
};
pub use load::config::{DataConfig, IdxConfig};
pub use load::load;
pub use numbers::{arrays, csv};
pub use preprocessing::{Preprocessing, TrainingData, Transform};
pub use sconce_nn::{Inputs, Targets, TokenTargets};
pub use split::portion::{Amount, HeldOut, Portion, Split};
pub use targets::scaling::{TargetScale, TargetScaling};
pub use text::{TextConfig, TextDataset, TextPart, TextTransform};
pub use tokens::rows::{JsonlConfig, RowsTransform};
pub use tokens::tokenizer::{ChatQuestion, Tokenizer};

pub use tokens::writing::{TokenizeOptions, TokenizedSource, tokenize, train_tokenizer};
pub use tokens::{
    Documents, TokenDataset, TokenType, TokensConfig, TokensPart, TokensTransform, VocabularySource,
};
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

//! Errors of data sets, with all their messages.
//!
//! They are below everything that reads data, and hold what their messages say: no kind of data is known here.
//!
//! **Parts**
//! - [`DataError`]: what any kind of data can have, and one of these in it.
//! - `arrays`, `csv`, `image_folder`, `images`, `cifar`, `text`, `tokens`: what only these can have; `unknown_category`: a detail of a table's.
//! - `preprocessing`: the file of what was learnt. `printable`: texts from data, as messages show them.

mod arrays;
mod cifar;
mod csv;
mod image_folder;
mod images;
mod preprocessing;
pub(super) mod printable;
mod text;
mod tokens;
mod unknown_category;

use std::io;
use std::path::{Path, PathBuf};

pub use arrays::ArrayError;
pub use cifar::CifarError;
pub use csv::CsvError;
pub use image_folder::{ImageFolderError, Undecodable};
pub use images::ImagesError;
pub use preprocessing::PreprocessingError;
pub use text::TextError;
pub use tokens::TokensError;
pub use unknown_category::UnknownCategory;

/// A data set that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file does not exist.
    #[error(
        "can't read `{}`: there is no such file; relative paths start at the manifest's directory",
        file.display()
    )]
    Missing {
        /// Path of the file.
        file: PathBuf,
    },
    /// A file can't be opened or read.
    #[error("can't read `{}`: {source}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The environment variable `SCONCE_DATA_HASH` has no valid value.
    #[error(
        "the environment variable `SCONCE_DATA_HASH` can be `cached` or `always`, not `{found}`"
    )]
    HashSetting {
        /// Its value.
        found: String,
    },
    /// A sample that is read on demand can't be.
    #[error(
        "sample {sample} (from 0, in the order of the data) can't be read from `{}`: {problem}",
        file.display()
    )]
    Sample {
        /// Path of the file.
        file: PathBuf,
        /// Index of the sample in the files, before they are divided into phases.
        sample: usize,
        /// What is wrong.
        problem: String,
    },
    /// A file has another format, e.g. another compression.
    #[error("`{}` is {what}, which can't be read here: {advice}", file.display())]
    OtherFormat {
        /// Path of the file.
        file: PathBuf,
        /// Format of the file.
        what: String,
        /// What to do about it.
        advice: String,
    },
    /// A gzipped file does not decompress.
    #[error("`{}` is gzipped but damaged: {source}; fetch it again", file.display())]
    Damaged {
        /// Path of the file.
        file: PathBuf,
        /// Error of the decompressor.
        source: io::Error,
    },
    /// A file is shorter than its header says.
    #[error(
        "`{}` is truncated: {expected} bytes expected{}, found {found}; fetch it again",
        file.display(), unpacked(*gzipped)
    )]
    Truncated {
        /// Path of the file.
        file: PathBuf,
        /// Expected number of bytes.
        expected: u64,
        /// Actual number of bytes.
        found: u64,
        /// Whether bytes are counted after decompression.
        gzipped: bool,
    },
    /// A file is longer than its header says.
    #[error(
        "`{}` continues after the {expected} bytes{} that its header announces; are two files in one?",
        file.display(), unpacked(*gzipped)
    )]
    Trailing {
        /// Path of the file.
        file: PathBuf,
        /// Expected number of bytes.
        expected: u64,
        /// Whether bytes are counted after decompression.
        gzipped: bool,
    },
    /// A file does not start like an IDX file.
    #[error(
        "`{}` is not an IDX file: it begins with the bytes {found:02x?} ({looks_like}), an IDX file \
         with 00 00",
        file.display()
    )]
    Magic {
        /// Path of the file.
        file: PathBuf,
        /// First four bytes.
        found: [u8; 4],
        /// Format that it looks like.
        looks_like: &'static str,
    },
    /// An IDX file has elements that are not bytes.
    #[error(
        "`{}` has elements of IDX type 0x{found:02x} ({}); only bytes (0x08) can be read, convert \
         it to them",
        file.display(), element_name(*found)
    )]
    ElementType {
        /// Path of the file.
        file: PathBuf,
        /// Element type in the header.
        found: u8,
    },
    /// An IDX file has the wrong rank for its role.
    #[error(
        "`{}` has {found} dimensions, {role} have {wanted}; are images and labels exchanged?",
        file.display()
    )]
    Rank {
        /// Path of the file.
        file: PathBuf,
        /// Role, `images` or `labels`.
        role: &'static str,
        /// Required number of dimensions.
        wanted: &'static str,
        /// Actual number of dimensions.
        found: u8,
    },
    /// The header announces more elements than the file can hold.
    #[error(
        "`{}` can't be right: its header announces {dimensions:?} elements, more than a file of \
         {size} bytes can hold; fetch it again",
        file.display()
    )]
    Absurd {
        /// Path of the file.
        file: PathBuf,
        /// Dimensions in the header.
        dimensions: Vec<u32>,
        /// Size of the file in bytes.
        size: u64,
    },
    /// There are no samples.
    #[error("`{}` has no samples", file.display())]
    Empty {
        /// Path of the file.
        file: PathBuf,
    },
    /// The numbers of images and labels differ.
    #[error(
        "`{}` has {images} images, but `{}` has {labels} labels; are they of the same set?",
        images_file.display(), labels_file.display()
    )]
    CountMismatch {
        /// Path of the file with the images.
        images_file: PathBuf,
        /// Path of the file with the labels.
        labels_file: PathBuf,
        /// Number of images.
        images: usize,
        /// Number of labels.
        labels: usize,
    },
    /// A label is not a class.
    #[error(
        "label {index} in `{}` is {label}, but there are {classes} classes, 0 to {}; name all of \
         them in `data.classes`",
        file.display(), classes.saturating_sub(1)
    )]
    Label {
        /// Path of the file.
        file: PathBuf,
        /// Index of the label.
        index: usize,
        /// Value of the label.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
    /// A phase's images have a different shape than the training images.
    #[error("the images in `{}` have the shape {found:?}, those of the training {wanted:?}", file.display())]
    Shape {
        /// Path of the file.
        file: PathBuf,
        /// Shape of the training images.
        wanted: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A split has too many or too few options.
    #[error(
        "`data.{phase}` must have exactly one of `count`, `fraction`, `fold` with `folds`, or {own}"
    )]
    SplitForm {
        /// Phase, `val` or `test`.
        phase: &'static str,
        /// Options for separate files.
        own: &'static str,
    },
    /// A fold is half said, or one of the test.
    #[error(
        "`data.{phase}` can't be a fold so: folds are for `data.val`, as `{{\"fold\": 1, \"folds\": 5}}`, once with each number"
    )]
    FoldForm {
        /// Phase, `val` or `test`.
        phase: &'static str,
    },
    /// An option of a split is out of range.
    #[error("`data.{phase}.{key}` must be {range}, found {found}")]
    SplitRange {
        /// Phase, `val` or `test`.
        phase: &'static str,
        /// Option, `count` or `fraction`.
        key: &'static str,
        /// Allowed range in words.
        range: &'static str,
        /// Value in the manifest.
        found: f64,
    },
    /// The splits leave nothing to train on.
    #[error(
        "of {total} samples {val} are for validation and {test} for the test: nothing is left to \
         train on; lower `data.val` or `data.test`"
    )]
    NothingLeft {
        /// Total number of samples.
        total: usize,
        /// Number of validation samples.
        val: usize,
        /// Number of test samples.
        test: usize,
    },
    /// Stratified splits are requested for samples without classes.
    #[error(
        "`data.stratified` keeps the classes' shares, but the targets are numbers: leave it out, or, in a \
         table, set `data.target_kind` to \"classes\""
    )]
    NotStratified,
    /// Classes are to be balanced where samples have none, or several.
    #[error(
        "`train.sampling` \"balanced\" draws samples by their class, but the targets are not one class of each sample: leave it out"
    )]
    NotBalanced,
    /// Stratified parts that are not folds are to keep groups together.
    #[error(
        "`data.stratified` with `data.group` is for folds, `\"val\": {{\"fold\": 1, \"folds\": 5}}` without a part for `test`: a \
         `count` or `fraction` of whole groups can't keep the classes' shares; leave one of the two out"
    )]
    StratifiedGroups,
    /// There are fewer groups than folds.
    #[error("{groups} groups of `data.group` can't be divided into {folds} folds")]
    FewGroups {
        /// Number of groups.
        groups: usize,
        /// Number of folds.
        folds: usize,
    },
    /// There are more samples than a `u32` index can address.
    #[error("{0} samples are more than the 4,294,967,295 that can be counted")]
    TooMany(u64),
    /// A model that was trained without targets has nothing to compare its outputs with.
    #[error(
        "the model was trained without targets, so that its outputs can't be compared with any; `sconce predict` writes them"
    )]
    NothingToCompare,
    /// Samples that are not images have no views.
    #[error("only images have views, and these samples are none: leave the views out")]
    WithoutViews,
    /// A sample index is out of range.
    #[error("sample {index} was asked for, but there are {count}")]
    Index {
        /// Requested index.
        index: u32,
        /// Number of samples.
        count: usize,
    },
    /// An option of a synthetic data set is out of range.
    #[error("`data.{key}` must be {range}, found {found}")]
    Range {
        /// Name of the option.
        key: &'static str,
        /// Allowed range in words.
        range: &'static str,
        /// Value in the manifest.
        found: f64,
    },
    /// A file's samples have a different shape than the training samples.
    #[error("the samples in `{}` have the shape {found:?}, those of the training {wanted:?}", file.display())]
    SampleShape {
        /// Path of the file.
        file: PathBuf,
        /// Shape of the training samples.
        wanted: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A table can't be used.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// Arrays can't be used.
    #[error(transparent)]
    Arrays(#[from] ArrayError),
    /// A file to evaluate a model on has inputs alone.
    #[error(
        "`{}` has inputs without targets, so nothing can be compared: {way}",
        file.display()
    )]
    WithoutTargets {
        /// Path of the file.
        file: PathBuf,
        /// How targets are given.
        way: &'static str,
    },
    /// Targets are given apart for samples that have theirs.
    #[error("`{}` has the targets of its samples in it: leave `--targets` out", file.display())]
    TargetsInside {
        /// Path of the samples.
        file: PathBuf,
    },
    /// Parts of the training's data are wanted of another kind of data than a table.
    #[error(
        "only rows of a table are found again in another file, and the model is for other data"
    )]
    NoParts,
    /// Samples of this kind can't be read from a file for predictions.
    #[error(
        "can't read samples to predict from `{}`: the manifest's data has no files of that kind; \
         leave `--input` out to predict the manifest's own",
        file.display()
    )]
    NotOpened {
        /// Path of the file.
        file: PathBuf,
    },
    /// Images can't be prepared.
    #[error(transparent)]
    Images(#[from] ImagesError),
    /// CIFAR's files can't be used.
    #[error(transparent)]
    Cifar(#[from] CifarError),
    /// Image files can't be used.
    #[error(transparent)]
    ImageFolder(#[from] ImageFolderError),
    /// A text can't be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Tokens can't be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// A data set panicked; the panic's message.
    #[error("the data set panicked while it prepared a batch: {0}")]
    Panicked(String),
    /// candle failed to create a tensor.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Returns the error for a file that could not be opened or read.
pub(crate) fn unreadable(file: &Path, source: io::Error) -> DataError {
    let file = file.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => DataError::Missing { file },
        _ => DataError::Read { file, source },
    }
}

fn unpacked(gzipped: bool) -> &'static str {
    if gzipped { " after decompression" } else { "" }
}

fn element_name(element: u8) -> &'static str {
    match element {
        0x08 => "bytes",
        0x09 => "signed bytes",
        0x0b => "16-bit integers",
        0x0c => "32-bit integers",
        0x0d => "32-bit floats",
        0x0e => "64-bit floats",
        _ => "none that IDX has",
    }
}

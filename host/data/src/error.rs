//! What can be wrong with data: every sentence of this part.

use std::io;
use std::path::PathBuf;

use super::{CifarError, ImageFolderError, ImagesError, TextError};

/// Why data can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that isn't there.
    #[error(
        "can't read `{}`: there is no such file; relative paths start at the manifest's directory",
        file.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// A file can't be opened or read.
    #[error("can't read `{}`: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of another format, such as another compression.
    #[error("`{}` is {what}, which can't be read here: {advice}", file.display())]
    OtherFormat {
        /// The file.
        file: PathBuf,
        /// What it is.
        what: String,
        /// What to do.
        advice: String,
    },
    /// A gzipped file that does not decompress.
    #[error("`{}` is gzipped but damaged: {source}; fetch it again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What the decompressor says.
        source: io::Error,
    },
    /// A file that ends before its header says.
    #[error(
        "`{}` is truncated: {expected} bytes expected{}, found {found}; fetch it again",
        file.display(), unpacked(*gzipped)
    )]
    Truncated {
        /// The file.
        file: PathBuf,
        /// How many bytes there must be.
        expected: u64,
        /// How many there are.
        found: u64,
        /// Whether these are bytes after decompression.
        gzipped: bool,
    },
    /// A file that goes on after its end.
    #[error(
        "`{}` goes on after the {expected} bytes{} that its header announces; are two files in one?",
        file.display(), unpacked(*gzipped)
    )]
    Trailing {
        /// The file.
        file: PathBuf,
        /// How many bytes there must be.
        expected: u64,
        /// Whether these are bytes after decompression.
        gzipped: bool,
    },
    /// A file that does not begin as IDX files do.
    #[error(
        "`{}` is no IDX file: it begins with the bytes {found:02x?} ({looks_like}), an IDX file \
         with 00 00",
        file.display()
    )]
    Magic {
        /// The file.
        file: PathBuf,
        /// Its first four bytes.
        found: [u8; 4],
        /// What it may be.
        looks_like: &'static str,
    },
    /// An IDX file of other numbers than bytes.
    #[error(
        "`{}` has elements of IDX type 0x{found:02x} ({}); only bytes (0x08) can be read, convert \
         it to them",
        file.display(), element_name(*found)
    )]
    ElementType {
        /// The file.
        file: PathBuf,
        /// The type in its header.
        found: u8,
    },
    /// An IDX file of another rank than its role needs.
    #[error(
        "`{}` has {found} dimensions, {role} have {wanted}; are images and labels exchanged?",
        file.display()
    )]
    Rank {
        /// The file.
        file: PathBuf,
        /// `images` or `labels`.
        role: &'static str,
        /// How many dimensions it must have.
        wanted: &'static str,
        /// How many it has.
        found: u8,
    },
    /// A header that announces more than the file can hold.
    #[error(
        "`{}` can't be right: its header announces {dimensions:?} elements, more than a file of \
         {size} bytes can hold; fetch it again",
        file.display()
    )]
    Absurd {
        /// The file.
        file: PathBuf,
        /// The dimensions in its header.
        dimensions: Vec<u32>,
        /// The file's size.
        size: u64,
    },
    /// No samples.
    #[error("`{}` has no samples", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// Different numbers of images and labels.
    #[error(
        "`{}` has {images} images, but `{}` has {labels} labels; are they of the same set?",
        images_file.display(), labels_file.display()
    )]
    CountMismatch {
        /// The file with the images.
        images_file: PathBuf,
        /// The file with the labels.
        labels_file: PathBuf,
        /// How many images.
        images: usize,
        /// How many labels.
        labels: usize,
    },
    /// A label that is no class.
    #[error(
        "label {index} in `{}` is {label}, but there are {classes} classes, 0 to {}; name all of \
         them in `data.classes`",
        file.display(), classes.saturating_sub(1)
    )]
    Label {
        /// The file.
        file: PathBuf,
        /// Which label.
        index: usize,
        /// Its value.
        label: u8,
        /// How many classes there are.
        classes: usize,
    },
    /// Files of a phase whose images have another shape than the training's.
    #[error("the images in `{}` have the shape {found:?}, those of the training {wanted:?}", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// The training's shape.
        wanted: Vec<usize>,
        /// The file's shape.
        found: Vec<usize>,
    },
    /// A split that says too much or too little.
    #[error("`data.{phase}` must have exactly one of `count`, `fraction`, or {own}")]
    SplitForm {
        /// `val` or `test`.
        phase: &'static str,
        /// The keys for files of its own.
        own: &'static str,
    },
    /// A split's number out of range.
    #[error("`data.{phase}.{key}` must be {range}, found {found}")]
    SplitRange {
        /// `val` or `test`.
        phase: &'static str,
        /// `count` or `fraction`.
        key: &'static str,
        /// The range in words.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// Splits that leave nothing to train on.
    #[error(
        "of {total} samples {val} are for validation and {test} for the test: nothing is left to \
         train on; lower `data.val` or `data.test`"
    )]
    NothingLeft {
        /// All samples.
        total: usize,
        /// Those for validation.
        val: usize,
        /// Those for the test.
        test: usize,
    },
    /// Stratified splits of samples without classes.
    #[error(
        "`data.stratified` keeps the classes' shares, but the targets are numbers: leave it out, or, in a \
         table, set `data.target_kind` to \"classes\""
    )]
    NotStratified,
    /// More samples than indices can count.
    #[error("{0} samples are more than the 4,294,967,295 that can be counted")]
    TooMany(u64),
    /// A sample that isn't there.
    #[error("sample {index} was asked for, but there are {count}")]
    Index {
        /// The index.
        index: u32,
        /// How many samples there are.
        count: usize,
    },
    /// A number of the synthetic data out of range.
    #[error("`data.{key}` must be {range}, found {found}")]
    Range {
        /// The key.
        key: &'static str,
        /// The range in words.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// A file whose samples have another shape than the training's.
    #[error("the samples in `{}` have the shape {found:?}, those of the training {wanted:?}", file.display())]
    SampleShape {
        /// The file.
        file: PathBuf,
        /// The training's shape.
        wanted: Vec<usize>,
        /// The file's shape.
        found: Vec<usize>,
    },
    /// A table can't be used.
    #[error(transparent)]
    Csv(#[from] super::csv::Error),
    /// Arrays can't be used.
    #[error(transparent)]
    Arrays(#[from] super::arrays::Error),
    /// Samples to predict that can't come from a file.
    #[error(
        "can't read samples to predict from `{}`: the manifest's data has no files of that kind; \
         leave `--input` out to predict the manifest's own",
        file.display()
    )]
    NotOpened {
        /// The file.
        file: PathBuf,
    },
    /// Images can't be made ready.
    #[error(transparent)]
    Images(#[from] ImagesError),
    /// CIFAR's files can't be used.
    #[error(transparent)]
    Cifar(#[from] CifarError),
    /// Image files can't be used.
    #[error(transparent)]
    ImageFolder(#[from] ImageFolderError),
    /// What is wrong with a text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A panic in a data set.
    #[error("the data set panicked while it prepared a batch: {0}")]
    Panicked(String),
    /// candle's error.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
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

//! What can be wrong with CIFAR's files.

use std::path::PathBuf;

/// Why CIFAR can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CifarError {
    /// A file that isn't in the directory.
    #[error(
        "`{}` has no file `{name}`: `data.directory` must be what `cifar-{version}-binary.tar.gz` \
         unpacks to, `{folder}` with {files} (the versions for Python and Matlab have others)",
        directory.display()
    )]
    Missing {
        /// The directory.
        directory: PathBuf,
        /// The file.
        name: String,
        /// 10 or 100.
        version: u16,
        /// The directory's name in the archive.
        folder: &'static str,
        /// The files that it has.
        files: &'static str,
    },
    /// A file that is cut off or of another kind.
    #[error(
        "`{}` has {size} bytes, no multiple of the {record} that an image of CIFAR-{version} has: \
         {}", file.display(),
        if *is_other { "it looks like the other version, correct `data.version`" }
        else { "it is truncated or of another kind, fetch it again" }
    )]
    Size {
        /// The file.
        file: PathBuf,
        /// Its size.
        size: usize,
        /// A record's size.
        record: usize,
        /// 10 or 100.
        version: u16,
        /// Whether records of the other version would fit.
        is_other: bool,
    },
    /// A label that is no class.
    #[error(
        "record {record} in `{}` has the label {label}, but there are {classes} classes, 0 to {}; \
         is `data.version` right, and the file whole?",
        file.display(), classes.saturating_sub(1)
    )]
    Label {
        /// The file.
        file: PathBuf,
        /// Which record, from 0.
        record: usize,
        /// The label.
        label: u8,
        /// How many classes there are.
        classes: usize,
    },
    /// A list of names of another length.
    #[error("`{}` has {found} names of classes, one a line, but there are {wanted}", file.display())]
    Names {
        /// The file.
        file: PathBuf,
        /// How many there are.
        found: usize,
        /// How many classes there are.
        wanted: usize,
    },
    /// Coarse or fine labels of CIFAR-10.
    #[error("`data.labels` is for CIFAR-100 alone: CIFAR-10 has one label for each image")]
    LabelsOfTen,
}

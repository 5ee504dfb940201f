//! Errors of CIFAR's files.

use std::path::PathBuf;

/// A CIFAR archive that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CifarError {
    /// A file is not in the directory.
    #[error(
        "`{}` has no file `{name}`: `data.directory` must be what `cifar-{version}-binary.tar.gz` \
         unpacks to, `{folder}` with {files} (the versions for Python and Matlab have others)",
        directory.display()
    )]
    Missing {
        /// Path of the directory.
        directory: PathBuf,
        /// Name of the missing file.
        name: String,
        /// Version, 10 or 100.
        version: u16,
        /// Name of the directory in the archive.
        folder: &'static str,
        /// Names of the files in the archive.
        files: &'static str,
    },
    /// A file is truncated or of another kind.
    #[error(
        "`{}` has {size} bytes, no multiple of the {record} that an image of CIFAR-{version} has: \
         {}", file.display(),
        if *is_other { "it looks like the other version, correct `data.version`" }
        else { "it is truncated or of another kind, fetch it again" }
    )]
    Size {
        /// Path of the file.
        file: PathBuf,
        /// Size of the file in bytes.
        size: usize,
        /// Size of a record in bytes.
        record: usize,
        /// Version, 10 or 100.
        version: u16,
        /// Whether the size is a multiple of the other version's records.
        is_other: bool,
    },
    /// A label is not a class.
    #[error(
        "record {record} in `{}` has the label {label}, but there are {classes} classes, 0 to {}; \
         is `data.version` right, and the file whole?",
        file.display(), classes.saturating_sub(1)
    )]
    Label {
        /// Path of the file.
        file: PathBuf,
        /// Index of the record, from 0.
        record: usize,
        /// Value of the label.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
    /// The file with class names has the wrong number of names.
    #[error("`{}` has {found} names of classes, one a line, but there are {wanted}", file.display())]
    Names {
        /// Path of the file.
        file: PathBuf,
        /// Number of names in the file.
        found: usize,
        /// Number of classes.
        wanted: usize,
    },
    /// `labels` is given for CIFAR-10, which has only one set of labels.
    #[error("`data.labels` is for CIFAR-100 alone: CIFAR-10 has one label for each image")]
    LabelsOfTen,
}

//! Errors of image directories.

use std::fmt::Write;
use std::path::PathBuf;

/// A directory of images that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFolderError {
    /// A way of resizing without a size.
    #[error("`data.resize` needs `data.size`, [height, width], to which images are resized")]
    ResizeWithoutSize,
    /// The directory has no subdirectories.
    #[error(
        "`{}` has no directories: it must have one for each class, with the class's images",
        directory.display()
    )]
    NoClasses {
        /// Path of the directory.
        directory: PathBuf,
    },
    /// The subdirectories look like phases, not classes.
    #[error(
        "the directories in `{}` are {}, which look like phases, not classes: give the one to train \
         on as `data.directory`, the others as `file` of `data.val` and `data.test`",
        directory.display(), found.join(", ")
    )]
    Phases {
        /// Path of the directory.
        directory: PathBuf,
        /// Names of the subdirectories.
        found: Vec<String>,
    },
    /// A file is next to the classes' directories.
    #[error(
        "`{}` is in no class's directory: move it into one, or out of the data",
        file.display()
    )]
    Stray {
        /// Path of the file.
        file: PathBuf,
    },
    /// A path is a pipe, a socket or a device.
    #[error("`{}` is {what}, no image: take it out of the data", file.display())]
    Special {
        /// Path of the special file.
        file: PathBuf,
        /// Kind of the special file.
        what: &'static str,
    },
    /// A directory has no images.
    #[error("`{}` has no images", directory.display())]
    Nothing {
        /// Path of the directory.
        directory: PathBuf,
    },
    /// A class does not occur in the training data.
    #[error(
        "`{}` is a class that the training images don't have{}", directory.display(),
        near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    )]
    UnknownClass {
        /// Directory of the class.
        directory: PathBuf,
        /// Training class with the most similar name.
        near: Option<String>,
    },
    /// Files are not images, or damaged.
    #[error("{}", list(files, *count))]
    Undecodable {
        /// The first of these files.
        files: Vec<Undecodable>,
        /// Number of these files.
        count: usize,
    },
    /// An image has a different size, and no size is configured.
    #[error(
        "`{}` has {} × {} pixels (height × width), the images before it {} × {}: give `data.size` as \
         [height, width], to which all are resized",
        file.display(), found[0], found[1], wanted[0], wanted[1]
    )]
    OtherSize {
        /// Path of the first such file.
        file: PathBuf,
        /// Its height and width.
        found: [usize; 2],
        /// Height and width of the first training image.
        wanted: [usize; 2],
    },
    /// The configured size is out of range.
    #[error("`data.size` must be two numbers from 1 to 8192, found [{}, {}]", found[0], found[1])]
    Size {
        /// Value in the manifest.
        found: [usize; 2],
    },
    /// The images do not fit in memory.
    #[error(
        "{images} images of {} × {} pixels and {channels} channels don't fit into memory: give a \
         smaller `data.size`", size[0], size[1]
    )]
    Memory {
        /// Number of images.
        images: usize,
        /// Height and width.
        size: [usize; 2],
        /// Number of channels.
        channels: usize,
    },
}

/// A file that can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Path of the file.
    pub file: PathBuf,
    /// Message of the decoder.
    pub reason: String,
}

fn list(files: &[Undecodable], count: usize) -> String {
    let what = if count == 1 { "file" } else { "files" };
    let mut text = format!(
        "{count} {what} can't be decoded as PNG, JPEG, BMP, GIF, WebP or PNM (hidden files are \
         ignored):"
    );
    for Undecodable { file, reason } in files {
        // Writing to a `String` can't fail.
        let _ = write!(text, "\n  `{}`: {reason}", file.display());
    }
    if count > files.len() {
        let _ = write!(text, "\n  and {} more", count - files.len());
    }
    text
}

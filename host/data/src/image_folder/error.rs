//! What can be wrong with directories of images.

use std::fmt::Write;
use std::path::PathBuf;

/// Why image files can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFolderError {
    /// A directory without directories.
    #[error(
        "`{}` has no directories: it must have one for each class, with the class's images",
        directory.display()
    )]
    NoClasses {
        /// The directory.
        directory: PathBuf,
    },
    /// Directories that are phases, not classes.
    #[error(
        "the directories in `{}` are {}, which look like phases, not classes: give the one to train \
         on as `data.directory`, the others as `file` of `data.val` and `data.test`",
        directory.display(), found.join(", ")
    )]
    Phases {
        /// The directory.
        directory: PathBuf,
        /// The directories in it.
        found: Vec<String>,
    },
    /// A file beside the classes' directories.
    #[error(
        "`{}` is in no class's directory: move it into one, or out of the data",
        file.display()
    )]
    Stray {
        /// The file.
        file: PathBuf,
    },
    /// A pipe, a socket or a device.
    #[error("`{}` is {what}, no image: take it out of the data", file.display())]
    Special {
        /// Its path.
        file: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A directory without images.
    #[error("`{}` has no images", directory.display())]
    Nothing {
        /// The directory.
        directory: PathBuf,
    },
    /// A class that isn't among the training's.
    #[error(
        "`{}` is a class that the training images don't have{}", directory.display(),
        near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    )]
    UnknownClass {
        /// The class's directory.
        directory: PathBuf,
        /// The training's class of the most similar name.
        near: Option<String>,
    },
    /// Files that are no images, or damaged ones.
    #[error("{}", list(files, *count))]
    Undecodable {
        /// The first of them.
        files: Vec<Undecodable>,
        /// How many there are.
        count: usize,
    },
    /// An image of another size, where none is asked for.
    #[error(
        "`{}` has {} × {} pixels (height × width), the images before it {} × {}: give `data.size` as \
         [height, width], to which all are resized",
        file.display(), found[0], found[1], wanted[0], wanted[1]
    )]
    OtherSize {
        /// The first such file.
        file: PathBuf,
        /// Its height and width.
        found: [usize; 2],
        /// The height and width of the first training image.
        wanted: [usize; 2],
    },
    /// A size that no image can have.
    #[error("`data.size` must be two numbers from 1 to 8192, found [{}, {}]", found[0], found[1])]
    Size {
        /// What was given.
        found: [usize; 2],
    },
    /// More pixels than there is memory.
    #[error(
        "{images} images of {} × {} pixels and {channels} channels don't fit into memory: give a \
         smaller `data.size`", size[0], size[1]
    )]
    Memory {
        /// How many images.
        images: usize,
        /// Height and width.
        size: [usize; 2],
        /// How many channels.
        channels: usize,
    },
}

/// A file that can't be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// The file.
    pub file: PathBuf,
    /// What the decoder says.
    pub reason: String,
}

fn list(files: &[Undecodable], count: usize) -> String {
    let what = if count == 1 { "file" } else { "files" };
    let mut text = format!(
        "{count} {what} can't be decoded as PNG, JPEG, BMP, GIF, WebP or PNM (hidden files are \
         ignored):"
    );
    for Undecodable { file, reason } in files {
        // Writing to a text can't fail.
        let _ = write!(text, "\n  `{}`: {reason}", file.display());
    }
    if count > files.len() {
        let _ = write!(text, "\n  and {} more", count - files.len());
    }
    text
}

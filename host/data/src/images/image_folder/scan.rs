//! Search for image files, in an order that does not depend on the file system's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{DataError, ImageFolderError};
use sconce_base::nearest::nearest;
use sconce_base::regular_file::special;

/// Directory names that denote phases of a data set.
const PHASES: [&str; 6] = ["train", "training", "val", "valid", "validation", "test"];

/// Image files with their classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    /// Class of each file.
    pub(super) labels: Vec<u32>,
}

/// Returns the names of the classes in a directory, sorted.
pub(super) fn classes(directory: &Path) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = subdirectories(directory)?
        .iter()
        .map(|path| name_of(path))
        .collect();
    if names.iter().all(|name| PHASES.contains(&name.as_str())) {
        return Err(DataError::ImageFolder(ImageFolderError::Phases {
            directory: directory.to_owned(),
            found: names,
        }));
    }
    Ok(names)
}

/// Returns the images in a directory whose subdirectories are some of these classes.
pub(super) fn labelled(directory: &Path, classes: &[String]) -> Result<Listing, DataError> {
    let mut listing = Listing {
        files: Vec::new(),
        labels: Vec::new(),
    };
    for path in subdirectories(directory)? {
        let name = name_of(&path);
        let Some(class) = classes.iter().position(|class| *class == name) else {
            let near = nearest(&name, classes.iter().map(String::as_str));
            return Err(DataError::ImageFolder(ImageFolderError::UnknownClass {
                near: near.map(str::to_owned),
                directory: path,
            }));
        };
        let mut files = images(&path)?;
        listing
            .labels
            .extend(std::iter::repeat_n(class as u32, files.len()));
        listing.files.append(&mut files);
    }
    Ok(listing)
}

/// Returns all images in a directory, with placeholder labels.
pub(super) fn unlabelled(directory: &Path) -> Result<Listing, DataError> {
    let files = images(directory)?;
    let labels = vec![0; files.len()];
    Ok(Listing { files, labels })
}

/// Returns all files in a directory, at any depth, sorted by path; or the file itself.
fn images(place: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    let mut places = vec![place.to_owned()];
    while let Some(place) = places.pop() {
        let kind = metadata(&place)?.file_type();
        if kind.is_dir() {
            places.append(&mut entries(&place)?);
        } else if let Some(what) = special(kind) {
            return Err(DataError::ImageFolder(ImageFolderError::Special {
                file: place,
                what,
            }));
        } else {
            files.push(place);
        }
    }
    if files.is_empty() {
        return Err(DataError::ImageFolder(ImageFolderError::Nothing {
            directory: place.to_owned(),
        }));
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns the sorted subdirectories of a directory; anything else in it is an error.
fn subdirectories(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut found = entries(directory)?;
    found.sort_unstable();
    for path in &found {
        if !metadata(path)?.is_dir() {
            return Err(DataError::ImageFolder(ImageFolderError::Stray {
                file: path.clone(),
            }));
        }
    }
    if found.is_empty() {
        return Err(DataError::ImageFolder(ImageFolderError::NoClasses {
            directory: directory.to_owned(),
        }));
    }
    Ok(found)
}

/// Returns the entries of a directory that are not hidden.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |error| failed(directory, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns the metadata; follows symbolic links.
fn metadata(path: &Path) -> Result<fs::Metadata, DataError> {
    fs::metadata(path).map_err(|error| failed(path, error))
}

fn failed(file: &Path, source: io::Error) -> DataError {
    let file = file.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => DataError::Missing { file },
        _ => DataError::Read { file, source },
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

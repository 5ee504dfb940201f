//! Image files in one directory per class.

mod config;
mod decode;
mod fit;
mod format;
mod jpeg;
mod on_demand;
mod scan;
mod survey;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use config::{ColourMode, ImageFolderConfig, Resize};
pub(crate) use format::DecodedFormat;
pub use survey::{ImageSurvey, survey_images};

use super::{Assembly, FittedImages, ImageTargets, Images, OwnImages};
use crate::dataset::fitted::Fitted;
use crate::error::{DataError, ImageFolderError};
use crate::files::data_files::note_directory;
use crate::files::memory::{MOST_DECODED, MemoryUse};
use decode::DecodedFiles;
use on_demand::ImageFiles;
use scan::Listing;

/// Finds and decodes the images; returns how they were decoded, too. Relative paths start at `base`; splits and
/// augmentation come from `seed`.
pub(crate) fn load(
    config: &ImageFolderConfig,
    base: &Path,
    seed: u64,
) -> Result<(Fitted<FittedImages>, DecodedFormat), DataError> {
    if let Some(found) = config.size
        && found.iter().any(|side| !(1..=8192).contains(side))
    {
        return Err(ImageFolderError::Size { found }.into());
    }
    if config.size.is_none() && config.resize != Resize::default() {
        return Err(ImageFolderError::ResizeWithoutSize.into());
    }
    let directory = base.join(&config.directory);
    let classes = match config.options.targets {
        ImageTargets::Classes => scan::classes(&directory)?,
        ImageTargets::None => Vec::new(),
    };
    let list = |place: &Path| match config.options.targets {
        ImageTargets::Classes => scan::labelled(place, &classes),
        ImageTargets::None => scan::unlabelled(place),
    };
    let listing = list(&directory)?;
    let total = listing.files.len();
    if u32::try_from(total).is_err() {
        return Err(DataError::TooMany(total as u64));
    }
    // Errors in the splits are reported before minutes of decoding.
    let [val, test] = config.held_out.sources(total)?;
    let taken = (val.taken(), test.taken());
    let parts = (config.held_out).of_classes(seed, &listing.labels, taken)?;
    let (size, memory) = match config.size.or_else(|| decode::first_size(&listing.files)) {
        Some(size) => (size, config.memory),
        // If no file can be decoded, all are listed in the error.
        None => ([1, 1], MemoryUse::Whole),
    };
    let form = DecodedFormat {
        mode: config.mode,
        size,
        resize: config.size.map(|_| config.resize),
    };
    let images = read(listing, form, &directory, memory)?;
    let own = |file: &Path| -> Result<OwnImages, DataError> {
        let file = base.join(file);
        let images = read(list(&file)?, form, &file, memory)?;
        Ok(OwnImages { images, file })
    };
    let (val, test) = (val.try_map(own)?, test.try_map(own)?);
    let assembly = Assembly {
        classes,
        options: &config.options,
        seed,
    };
    Ok((assembly.splits(images, parts, val, test)?, form))
}

/// Decodes images of known classes, found in a directory, or prepares to decode them on demand.
fn read(
    listing: Listing,
    form: DecodedFormat,
    directory: &Path,
    memory: MemoryUse,
) -> Result<Images, DataError> {
    let Listing { files, labels } = listing;
    images(files, labels, form, directory, memory)
}

/// Reads the images in a directory whose subdirectories are named after some of these classes.
pub(crate) fn labelled(
    place: &Path,
    form: DecodedFormat,
    classes: &[String],
) -> Result<Images, DataError> {
    read(
        scan::labelled(place, classes)?,
        form,
        place,
        MemoryUse::Auto,
    )
}

/// Reads an image, or all images in a directory sorted by path, for predictions.
pub(crate) fn unlabelled(place: &Path, form: DecodedFormat) -> Result<Images, DataError> {
    read(scan::unlabelled(place)?, form, place, MemoryUse::Auto)
}

fn images(
    files: Vec<PathBuf>,
    labels: Vec<u32>,
    form: DecodedFormat,
    place: &Path,
    memory: MemoryUse,
) -> Result<Images, DataError> {
    let shape = form.shape();
    let names: Vec<String> = files.iter().map(|file| name_in(file, place)).collect();
    let (images, contents) = if memory.is_whole(form.total(files.len()), MOST_DECODED) {
        let DecodedFiles { pixels, contents } = decode::all(&files, form)?;
        (Images::new(pixels, shape, labels), contents)
    } else {
        let files = ImageFiles::new(files, form, place)?;
        let contents = files.contents();
        let images = Images::on_demand(Arc::new(files), shape, labels);
        (images, contents)
    };
    note_directory(place, &names, &contents);
    Ok(images.of_files(names))
}

/// Returns a file's name relative to a directory, or its own name if it was requested directly.
fn name_in(file: &Path, place: &Path) -> String {
    let inside = file.strip_prefix(place).ok();
    let inside = inside.filter(|inside| !inside.as_os_str().is_empty());
    let name = inside.unwrap_or(Path::new(file.file_name().unwrap_or_default()));
    name.display().to_string()
}

#[cfg(test)]
mod decoding_tests;
#[cfg(test)]
mod tests;

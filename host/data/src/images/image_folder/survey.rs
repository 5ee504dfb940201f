//! Survey of a directory of images: which sizes they have, and whether they have colours.

use std::path::Path;

use image::DynamicImage;

use super::decode::{decoded, size_of, undecodable};
use super::scan;
use crate::error::{DataError, ImageFolderError, unreadable};
use sconce_base::regular_file::read_regular;

/// Maximum number of images that are decoded, evenly spaced among all.
const MOST_DECODED: usize = 500;

/// The images of a directory with a subdirectory per class.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSurvey {
    /// Names of the classes, each with its number of images.
    pub classes: Vec<(String, usize)>,
    /// Number of images that were decoded.
    pub decoded: usize,
    /// Height and width of the image in the middle, by area.
    pub size: [usize; 2],
    /// Whether all decoded images have this size.
    pub is_one_size: bool,
    /// Whether no decoded image has a colour.
    pub is_grey: bool,
}

/// Surveys a directory; of more than 500 images some are decoded.
///
/// # Errors
///
/// Errors in the directory, or an image that can't be decoded.
pub fn survey_images(directory: &Path) -> Result<ImageSurvey, DataError> {
    let names = scan::classes(directory)?;
    let listing = scan::labelled(directory, &names)?;
    let step = listing.files.len().div_ceil(MOST_DECODED).max(1);
    let mut sizes = Vec::new();
    let mut is_grey = true;
    for file in listing.files.iter().step_by(step) {
        let bytes = read_regular(file).map_err(|error| unreadable(file, error))?;
        let image = decoded(&bytes).map_err(|error| ImageFolderError::Undecodable {
            files: vec![undecodable(file, error)],
            count: 1,
        })?;
        sizes.push(size_of(&image));
        is_grey = is_grey && has_no_colour(&image);
    }
    sizes.sort_by_key(|[height, width]| (height * width, *height));
    let size = sizes.get(sizes.len() / 2).copied().unwrap_or([1, 1]);
    let count = |class| listing.labels.iter().filter(move |label| **label == class);
    Ok(ImageSurvey {
        classes: names
            .into_iter()
            .zip(0..)
            .map(|(name, class)| (name, count(class).count()))
            .collect(),
        decoded: sizes.len(),
        size,
        is_one_size: sizes.iter().all(|found| *found == size),
        is_grey,
    })
}

/// Whether red, green and blue are the same in every pixel.
fn has_no_colour(image: &DynamicImage) -> bool {
    let is_plain = |pixel: &image::Rgb<u8>| {
        let [red, green, blue] = pixel.0;
        red == green && green == blue
    };
    !image.color().has_color() || image.to_rgb8().pixels().all(is_plain)
}

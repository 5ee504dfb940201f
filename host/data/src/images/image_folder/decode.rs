//! Decoding: an image is decoded, resized, and stored channel by channel.
//!
//! Where all are decoded before training, every image has a fixed position in memory before the first is decoded, so that the order does not
//! depend on the threads' speed. Each thread takes the next image when it is done with one: those of a class may be larger than the others.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader};

use super::format::{DecodedFormat, check_size};
use super::{fit, jpeg};
use crate::error::{ImageFolderError, Undecodable};
use crate::files::data_files::FileContent;
use crate::images::pixels::decoding_threads;
use sconce_base::regular_file::read_regular;

/// Number of undecodable files that are listed in an error.
const NAMED: usize = 10;

/// A reason why a file can't be used.
pub(super) enum ImageProblem {
    Undecodable(Undecodable),
    OtherSize { file: PathBuf, found: [usize; 2] },
}

impl ImageProblem {
    /// What is wrong with a single file, which the message names already.
    pub(super) fn to_text(&self, form: DecodedFormat) -> String {
        match self {
            ImageProblem::Undecodable(Undecodable { reason, .. }) => {
                format!("it can't be decoded as PNG, JPEG, BMP, GIF, WebP or PNM: {reason}")
            }
            ImageProblem::OtherSize { found, .. } => format!(
                "it has {} × {} pixels (height × width), the first image {} × {}: give `data.size` as \
                 [height, width], to which all are resized",
                found[0], found[1], form.size[0], form.size[1]
            ),
        }
    }
}

/// Returns the height and width of the first file that can be decoded.
pub(super) fn first_size(files: &[PathBuf]) -> Option<[usize; 2]> {
    files
        .iter()
        .find_map(|file| decoded(&read_regular(file).ok()?).ok())
        .map(|image| size_of(&image))
}

/// Files that have been read and decoded.
pub(super) struct DecodedFiles {
    /// Pixels of all files, one after the other; each channel by channel in row-major order.
    pub(super) pixels: Vec<u8>,
    /// What the files were.
    pub(super) contents: Vec<FileContent>,
}

/// Reads and decodes all files.
pub(super) fn all(
    files: &[PathBuf],
    form: DecodedFormat,
) -> Result<DecodedFiles, ImageFolderError> {
    let too_much = || ImageFolderError::Memory {
        images: files.len(),
        size: form.size,
        channels: form.mode.channels(),
    };
    let bytes = form.bytes().ok_or_else(too_much)?.max(1);
    let total = bytes.checked_mul(files.len()).ok_or_else(too_much)?;
    let mut pixels = Vec::new();
    pixels.try_reserve_exact(total).map_err(|_| too_much())?;
    pixels.resize(total, 0);
    let places = pixels.chunks_exact_mut(bytes);
    let work = Mutex::new(files.iter().zip(places).enumerate());
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = decoding_threads().min(files.len());
    let mut results: Vec<(usize, Result<FileContent, ImageProblem>)> =
        std::thread::scope(|scope| {
            let decode = || {
                let taken = std::iter::from_fn(take);
                let results = taken.map(|(index, (file, place))| (index, read(file, place, form)));
                results.collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(decode)).collect();
            let finished = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            finished.flatten().collect()
        });
    results.sort_unstable_by_key(|(index, _)| *index);
    let (mut contents, mut problems) = (Vec::with_capacity(files.len()), Vec::new());
    for (_, result) in results {
        match result {
            Ok(content) => contents.push(content),
            Err(problem) => problems.push(problem),
        }
    }
    complain(problems, form)?;
    Ok(DecodedFiles { pixels, contents })
}

/// Reads a file and decodes it to its position; returns what it was.
fn read(file: &Path, place: &mut [u8], form: DecodedFormat) -> Result<FileContent, ImageProblem> {
    let bytes = read_regular(file).map_err(ImageError::IoError);
    let bytes = bytes.map_err(|error| ImageProblem::Undecodable(undecodable(file, error)))?;
    one(file, &bytes, place, form)?;
    Ok(FileContent::of(&bytes))
}

pub(super) fn undecodable(file: &Path, error: ImageError) -> Undecodable {
    Undecodable {
        file: file.to_owned(),
        reason: reason(error),
    }
}

/// Decodes the bytes of a file to the image's position.
pub(super) fn one(
    file: &Path,
    bytes: &[u8],
    place: &mut [u8],
    form: DecodedFormat,
) -> Result<(), ImageProblem> {
    let problem = |error| ImageProblem::Undecodable(undecodable(file, error));
    let image = decoded(bytes).map_err(problem)?;
    let found = size_of(&image);
    let resize = match form.resize {
        _ if found == form.size => None,
        Some(resize) => Some(resize),
        None => {
            return Err(ImageProblem::OtherSize {
                file: file.to_owned(),
                found,
            });
        }
    };
    fit::put(image, resize, place, form).map_err(problem)
}

/// Decodes the bytes of an image file, upright according to its EXIF orientation; the format is detected from the
/// contents, not from the name.
pub(super) fn decoded(bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let (mut image, orientation) = if reader.format() == Some(ImageFormat::Jpeg) {
        jpeg::decoded(bytes)?
    } else {
        let mut decoder = reader.into_decoder()?;
        check_size(decoder.total_bytes())?;
        // Damaged metadata do not make the pixels unusable.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        (DynamicImage::from_decoder(decoder)?, orientation)
    };
    image.apply_orientation(orientation);
    Ok(image)
}

pub(super) fn size_of(image: &DynamicImage) -> [usize; 2] {
    [image.height() as usize, image.width() as usize]
}

fn reason(error: ImageError) -> String {
    match error {
        ImageError::Unsupported(_) => "none of these".to_owned(),
        ImageError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "truncated".to_owned()
        }
        ImageError::Limits(_) => "its pixels would take more than 1 GiB".to_owned(),
        error => error.to_string(),
    }
}

/// Returns an error if there are problems: undecodable files take precedence over wrong sizes.
fn complain(problems: Vec<ImageProblem>, form: DecodedFormat) -> Result<(), ImageFolderError> {
    let mut files = Vec::new();
    let mut other = None;
    for problem in problems {
        match problem {
            ImageProblem::Undecodable(file) => files.push(file),
            ImageProblem::OtherSize { file, found } => other = other.or(Some((file, found))),
        }
    }
    if !files.is_empty() {
        let count = files.len();
        files.truncate(NAMED);
        return Err(ImageFolderError::Undecodable { files, count });
    }
    match other {
        None => Ok(()),
        Some((file, found)) => Err(ImageFolderError::OtherSize {
            file,
            found,
            wanted: form.size,
        }),
    }
}

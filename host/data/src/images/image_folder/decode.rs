//! Decoding: an image is decoded, resized, and stored channel by channel.
//!
//! Where all are decoded before training, every image has a fixed position in memory before the first is decoded, so that the order does not
//! depend on the threads' speed.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, ImageBuffer, ImageDecoder, ImageError, ImageFormat, ImageReader, Pixel};
use serde::{Deserialize, Serialize};

use super::{ColourMode, Resize, jpeg};
use crate::error::{ImageFolderError, Undecodable};
use crate::files::data_files::FileContent;
use crate::images::pixels::decoding_threads;
use sconce_base::regular_file::read_regular;

/// Number of undecodable files that are listed in an error.
const NAMED: usize = 10;

/// Format in which images are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecodedFormat {
    pub(crate) mode: ColourMode,
    /// Height and width.
    pub(crate) size: [usize; 2],
    /// How images of other sizes are resized; none: they are errors.
    pub(crate) resize: Option<Resize>,
}

impl DecodedFormat {
    /// Returns channels, height and width.
    pub(crate) fn shape(self) -> [usize; 3] {
        let [height, width] = self.size;
        [self.mode.channels(), height, width]
    }

    /// Returns the number of bytes of an image.
    pub(super) fn bytes(&self) -> Option<usize> {
        let [height, width] = self.size;
        let channels = self.mode.channels();
        channels.checked_mul(height)?.checked_mul(width)
    }

    /// Returns the number of bytes of this many images; the largest number if there is none so large.
    pub(super) fn total(&self, images: usize) -> u64 {
        let bytes = self.bytes().and_then(|bytes| bytes.checked_mul(images));
        bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }
}

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
    let share = files.len().div_ceil(decoding_threads()).max(1);
    let parts = files
        .chunks(share)
        .zip(pixels.chunks_mut(share.saturating_mul(bytes)));
    let results: Vec<Result<FileContent, ImageProblem>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .map(|(files, pixels)| scope.spawn(move || some(files, pixels, bytes, form)))
            .collect();
        let finished = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        finished.flatten().collect()
    });
    let (mut contents, mut problems) = (Vec::with_capacity(files.len()), Vec::new());
    for result in results {
        match result {
            Ok(content) => contents.push(content),
            Err(problem) => problems.push(problem),
        }
    }
    complain(problems, form)?;
    Ok(DecodedFiles { pixels, contents })
}

/// Decodes one thread's files, each to its position; returns what each was, or the problem with it, in their order.
fn some(
    files: &[PathBuf],
    pixels: &mut [u8],
    bytes: usize,
    form: DecodedFormat,
) -> Vec<Result<FileContent, ImageProblem>> {
    let places = pixels.chunks_exact_mut(bytes);
    let results = files.iter().zip(places).map(|(file, place)| {
        let bytes = read_regular(file).map_err(ImageError::IoError);
        let bytes = bytes.map_err(|error| ImageProblem::Undecodable(undecodable(file, error)))?;
        one(file, &bytes, place, form)?;
        Ok(FileContent::of(&bytes))
    });
    results.collect()
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
    let image =
        decoded(bytes).map_err(|error| ImageProblem::Undecodable(undecodable(file, error)))?;
    let found = size_of(&image);
    match form.resize {
        _ if found == form.size => put(image, None, place, form),
        Some(resize) => put(image, Some(resize), place, form),
        None => {
            return Err(ImageProblem::OtherSize {
                file: file.to_owned(),
                found,
            });
        }
    }
    Ok(())
}

/// Copies the bytes of an image to their position, channel by channel.
fn put(image: DynamicImage, resize: Option<Resize>, place: &mut [u8], form: DecodedFormat) {
    let bytes = match form.mode {
        ColourMode::Grey => resized(image.into_luma8(), resize, form.size).into_raw(),
        ColourMode::Rgb => resized(image.into_rgb8(), resize, form.size).into_raw(),
    };
    let channels = form.mode.channels();
    let size = place.len() / channels;
    for (channel, plane) in place.chunks_exact_mut(size.max(1)).enumerate() {
        let values = bytes.iter().skip(channel).step_by(channels);
        for (pixel, value) in plane.iter_mut().zip(values) {
            *pixel = *value;
        }
    }
}

/// Resizes an image to (height, width).
fn resized<P: Pixel<Subpixel = u8> + 'static>(
    image: ImageBuffer<P, Vec<u8>>,
    resize: Option<Resize>,
    size: [usize; 2],
) -> ImageBuffer<P, Vec<u8>> {
    // Checked to be from 1 to 8192, or taken from an image.
    let [height, width] = size.map(|side| side as u32);
    let stretched = |width, height| imageops::resize(&image, width, height, FilterType::Triangle);
    match resize {
        None => image,
        Some(Resize::Stretch) => stretched(width, height),
        Some(Resize::Cover) => {
            let (wide, high) = scaled(image.dimensions(), (width, height), f64::max);
            let (wide, high) = (wide.max(width), high.max(height));
            let (left, top) = ((wide - width) / 2, (high - height) / 2);
            imageops::crop_imm(&stretched(wide, high), left, top, width, height).to_image()
        }
        Some(Resize::Contain) => {
            let (wide, high) = scaled(image.dimensions(), (width, height), f64::min);
            let (wide, high) = (wide.min(width), high.min(height));
            let (left, top) = ((width - wide) / 2, (height - high) / 2);
            let mut black = ImageBuffer::new(width, height);
            imageops::replace(&mut black, &stretched(wide, high), left.into(), top.into());
            black
        }
    }
}

/// Returns (width, height) of an image after scaling both by the factor that `choose` takes of those to `wanted`, rounded;
/// each at least 1.
fn scaled(from: (u32, u32), wanted: (u32, u32), choose: fn(f64, f64) -> f64) -> (u32, u32) {
    let factor = |from: u32, to: u32| f64::from(to) / f64::from(from.max(1));
    let factor = choose(factor(from.0, wanted.0), factor(from.1, wanted.1));
    let side = |side: u32| (f64::from(side) * factor).round().max(1.0) as u32;
    (side(from.0), side(from.1))
}

/// Decodes the bytes of an image file, upright according to its EXIF orientation; the format is detected from the
/// contents, not from the name.
pub(super) fn decoded(bytes: &[u8]) -> Result<DynamicImage, ImageError> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    if reader.format() == Some(ImageFormat::Jpeg) && !jpeg::is_complete(bytes) {
        let end = io::Error::from(io::ErrorKind::UnexpectedEof);
        return Err(ImageError::IoError(end));
    }
    let mut decoder = reader.into_decoder()?;
    // Damaged metadata do not make the pixels unusable.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder)?;
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

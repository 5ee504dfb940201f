//! Fitting: an image of any size becomes one of the stored size, channel by channel.
//!
//! Lines of new pixels and then columns are weighted sums in integers, so that vector units of every kind give the bits of none
//! (`host/data/tests/vector_units.rs`).

use fast_image_resize as fast;
use fast_image_resize::images::{TypedImage, TypedImageRef};
use image::error::{ParameterError, ParameterErrorKind};
use image::imageops;
use image::{DynamicImage, ImageBuffer, ImageError, Pixel};

use super::format::{DecodedFormat, check_size};
use super::{ColourMode, Resize};

/// Copies the bytes of an image to their position, channel by channel; resized, unless `resize` is none.
pub(super) fn put(
    image: DynamicImage,
    resize: Option<Resize>,
    place: &mut [u8],
    form: DecodedFormat,
) -> Result<(), ImageError> {
    match form.mode {
        ColourMode::Grey => {
            let bytes = resized(image.into_luma8(), resize, form.size)?.into_raw();
            copy(&bytes, place);
        }
        ColourMode::Rgb => {
            let bytes = resized(image.into_rgb8(), resize, form.size)?.into_raw();
            let (pixels, _) = bytes.as_chunks();
            let size = (place.len() / 3).max(1);
            let mut planes = place.chunks_exact_mut(size);
            if let (Some(red), Some(green), Some(blue)) =
                (planes.next(), planes.next(), planes.next())
            {
                divide(pixels, [red, green, blue]);
            }
        }
    }
    Ok(())
}

/// Copies as many bytes as both have.
fn copy(bytes: &[u8], place: &mut [u8]) {
    for (place, byte) in place.iter_mut().zip(bytes) {
        *place = *byte;
    }
}

/// Copies each channel of the pixels to its plane.
fn divide(pixels: &[[u8; 3]], [red, green, blue]: [&mut [u8]; 3]) {
    let places = red.iter_mut().zip(green).zip(blue);
    for (((red, green), blue), pixel) in places.zip(pixels) {
        [*red, *green, *blue] = *pixel;
    }
}

/// Resizes an image to (height, width).
fn resized<P: Pixel<Subpixel = u8> + 'static>(
    image: ImageBuffer<P, Vec<u8>>,
    resize: Option<Resize>,
    size: [usize; 2],
) -> Result<ImageBuffer<P, Vec<u8>>, ImageError> {
    // Checked to be from 1 to 8192, or taken from an image.
    let [height, width] = size.map(|side| side as u32);
    let all = fast::ResizeOptions::new();
    let mut resizer = fast::Resizer::new();
    match resize {
        None => Ok(image),
        Some(Resize::Stretch) => interpolated(&mut resizer, &image, (width, height), all),
        // What would be cropped afterwards is not computed.
        Some(Resize::Cover) => {
            let middle = all.fit_into_destination(None);
            interpolated(&mut resizer, &image, (width, height), middle)
        }
        Some(Resize::Contain) => {
            let (wide, high) = contained(image.dimensions(), (width, height));
            let (left, top) = ((width - wide) / 2, (height - high) / 2);
            let mut black = ImageBuffer::new(width, height);
            let image = interpolated(&mut resizer, &image, (wide, high), all)?;
            imageops::replace(&mut black, &image, left.into(), top.into());
            Ok(black)
        }
    }
}

/// Returns (width, height) of an image after scaling both until they fit into those of `place`, rounded; each at least 1.
fn contained(from: (u32, u32), place: (u32, u32)) -> (u32, u32) {
    let factor = |from: u32, to: u32| f64::from(to) / f64::from(from.max(1));
    let factor = factor(from.0, place.0).min(factor(from.1, place.1));
    let side = |side: u32, most: u32| {
        let side = (f64::from(side) * factor).round().max(1.0) as u32;
        side.min(most)
    };
    (side(from.0, place.0), side(from.1, place.1))
}

/// An image of another (width, height): each pixel is interpolated linearly over all pixels that it covers, as PIL's `BILINEAR`.
pub(super) fn interpolated<P: Pixel<Subpixel = u8> + 'static>(
    resizer: &mut fast::Resizer,
    image: &ImageBuffer<P, Vec<u8>>,
    (width, height): (u32, u32),
    options: fast::ResizeOptions,
) -> Result<ImageBuffer<P, Vec<u8>>, ImageError> {
    let channels = u64::from(P::CHANNEL_COUNT);
    // What is between the two passes: new columns of old lines.
    check_size(u64::from(width) * u64::from(image.height()) * channels)?;
    let linear = fast::ResizeAlg::Convolution(fast::FilterType::Bilinear);
    let options = options.resize_alg(linear);
    let mut new = ImageBuffer::new(width, height);
    let from = (image.width(), image.height(), image.as_raw().as_slice());
    let to = (width, height, &mut *new);
    match P::CHANNEL_COUNT {
        1 => resize::<fast::pixels::U8>(resizer, from, to, &options)?,
        _ => resize::<fast::pixels::U8x3>(resizer, from, to, &options)?,
    }
    Ok(new)
}

/// Resizes pixels of one kind, given with their width and height. Of a kind known when this is compiled: otherwise all thirteen kinds are,
/// for every vector unit, which was half the time that this crate took.
fn resize<P: fast::PixelTrait>(
    resizer: &mut fast::Resizer,
    (width, height, pixels): (u32, u32, &[u8]),
    (new_width, new_height, place): (u32, u32, &mut [u8]),
    options: &fast::ResizeOptions,
) -> Result<(), ImageError> {
    let from = TypedImageRef::<P>::from_buffer(width, height, pixels).map_err(wrong)?;
    let to = TypedImage::<P>::from_buffer(new_width, new_height, place);
    let mut to = to.map_err(wrong)?;
    resizer.resize_typed(&from, &mut to, options).map_err(wrong)
}

/// An image that can't be resized.
fn wrong(problem: impl std::fmt::Display) -> ImageError {
    let kind = ParameterErrorKind::Generic(problem.to_string());
    ImageError::Parameter(ParameterError::from_kind(kind))
}

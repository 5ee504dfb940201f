//! JPEG files: `zune-jpeg` called directly, which reads headers once and copies neither file nor pixels. It fills missing parts
//! with grey and says nothing, so truncated files are detected before.

use std::io;

use image::error::{DecodingError, ImageFormatHint};
use image::metadata::Orientation;
use image::{DynamicImage, ImageBuffer, ImageError, ImageFormat};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::format::check_size;

/// Byte before a marker.
const MARK: u8 = 0xff;

/// Decodes a file to grey, if it is, or to red, green and blue; with the orientation in its EXIF metadata.
pub(super) fn decoded(bytes: &[u8]) -> Result<(DynamicImage, Orientation), ImageError> {
    if !is_complete(bytes) {
        let end = io::Error::from(io::ErrorKind::UnexpectedEof);
        return Err(ImageError::IoError(end));
    }
    // As tolerant of small faults as other programs; the size is checked below.
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX));
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let colours = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => ColorSpace::Luma,
        _ => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let channels = colours.num_components();
    check_size(width as u64 * height as u64 * channels as u64)?;
    // A side has 16 bits.
    let (width, height) = (width as u32, height as u32);
    let orientation = decoder
        .exif()
        .and_then(|exif| Orientation::from_exif_chunk(exif));
    let pixels = decoder.decode().map_err(damaged)?;
    let image = match colours {
        ColorSpace::Luma => {
            ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageLuma8)
        }
        _ => ImageBuffer::from_raw(width, height, pixels).map(DynamicImage::ImageRgb8),
    };
    let image = image.ok_or_else(|| damaged("pixels are missing"))?;
    // Damaged metadata do not make the pixels unusable.
    Ok((image, orientation.unwrap_or(Orientation::NoTransforms)))
}

fn damaged(problem: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ImageError {
    let format = ImageFormatHint::Exact(ImageFormat::Jpeg);
    ImageError::Decoding(DecodingError::new(format, problem))
}

/// Whether the end-of-image marker is where it must be: after the last segment (ITU-T T.81, annex
/// B), not in a thumbnail.
fn is_complete(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some((marker, after)) = next_marker(rest) {
        if marker == 0xd9 {
            return true;
        }
        let Some(length) = after.first_chunk() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        rest = after.get(length..).unwrap_or_default();
    }
    false
}

/// Returns the next marker and the bytes after it. Skips compressed data with its restart markers (0xd0
/// to 0xd7), fill bytes (0xff) and stuffed bytes (0xff followed by 0x00).
fn next_marker(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let after = bytes.get(memchr::memchr(MARK, bytes)? + 1..)?;
        let (&marker, rest) = after.split_first()?;
        match marker {
            MARK => bytes = after,
            0x00 | 0x01 | 0xd0..=0xd7 => bytes = rest,
            marker => return Some((marker, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_end_counts() {
        let whole = [
            0xff, 0xd8, // Start.
            0xff, 0xe1, 0, 4, 0xff, 0xd9, // A segment with a thumbnail's end in it.
            0xff, 0xda, 0, 2, 1, 0xff, 0x00, 0xff, 0xd0, 2, // Data with a restart.
            0xff, 0xff, 0xd9, // A fill byte and the end.
        ];
        assert!(is_complete(&whole));
        assert!(is_complete(&[&whole[..], &[1, 2, 3]].concat()));
        for length in 0..whole.len() {
            assert!(!is_complete(&whole[..length]), "{length}");
        }
    }
}

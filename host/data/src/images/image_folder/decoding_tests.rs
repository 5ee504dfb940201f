//! Decoding and resizing give what PIL gives, and errors of what is damaged or too large.

use std::path::Path;

use fast_image_resize::{ResizeOptions, Resizer};
use image::{ImageFormat, Rgb, RgbImage};
use serde::Deserialize;

use super::decode::{ImageProblem, decoded, one};
use super::fit::interpolated;
use super::format::DecodedFormat;
use super::{ColourMode, Resize};

/// What `tests/reference/jpegs.py` wrote.
#[derive(Deserialize)]
struct Reference {
    decoded: Vec<DecodedImage>,
    resized: Vec<ResizedImage>,
}

#[derive(Deserialize)]
struct DecodedImage {
    kind: String,
    file: Vec<u8>,
    /// Red, green and blue of each pixel.
    pixels: Vec<u8>,
}

#[derive(Deserialize)]
struct ResizedImage {
    /// Height and width.
    size: [u32; 2],
    pixels: Vec<u8>,
}

fn reference() -> Reference {
    let text = include_str!("../../../../../tests/reference/jpegs.json");
    serde_json::from_str(text).expect("JSON")
}

/// Returns the largest difference.
fn furthest(left: &[u8], right: &[u8]) -> u8 {
    assert_eq!(left.len(), right.len());
    let differences = left
        .iter()
        .zip(right)
        .map(|(left, right)| left.abs_diff(*right));
    differences.max().expect("pixels")
}

/// The image that the reference resizes.
fn picture() -> RgbImage {
    RgbImage::from_fn(14, 9, |x, y| {
        let channels = [x * 17 + y * 29, x * x * 3 + y * 11, x * y * 7 + 40];
        Rgb(channels.map(|value| (value % 256) as u8))
    })
}

/// The error of decoding this file, if it can't be, to an image of some size.
fn problem(bytes: &[u8]) -> Option<String> {
    let form = DecodedFormat {
        mode: ColourMode::Rgb,
        size: [4, 4],
        resize: Some(Resize::Stretch),
    };
    match one(Path::new("image"), bytes, &mut [0; 48], form) {
        Ok(()) => None,
        Err(problem @ ImageProblem::Undecodable(_)) => Some(problem.to_text(form)),
        Err(ImageProblem::OtherSize { .. }) => panic!("it is resized"),
    }
}

#[test]
fn jpegs_of_every_kind_are_those_of_pil() {
    for DecodedImage { kind, file, pixels } in reference().decoded {
        let image = decoded(&file).unwrap_or_else(|error| panic!("{kind}: {error}"));
        // Of upsampled colours and of inks there are several ways.
        let most = match kind.as_str() {
            "quartered colour" | "halved colour" | "progressive" | "restarts" | "four inks" => 10,
            _ => 2,
        };
        let furthest = furthest(&image.into_rgb8(), &pixels);
        assert!(furthest <= most, "{kind}: {furthest}");
    }
}

#[test]
fn truncated_and_damaged_jpegs_are_errors_or_images() {
    for DecodedImage { kind, file, .. } in reference().decoded {
        for length in 0..file.len() {
            assert!(
                decoded(&file[..length]).is_err(),
                "{length} bytes of {kind}"
            );
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 1 << (place % 8);
            // That it returns is all that is asked for: the pixels may be any.
            drop(problem(&damaged));
        }
    }
}

#[test]
fn a_few_bytes_do_not_claim_all_memory() {
    let mut jpeg = std::io::Cursor::new(Vec::new());
    picture()
        .write_to(&mut jpeg, ImageFormat::Jpeg)
        .expect("written");
    let mut jpeg = jpeg.into_inner();
    let frame = jpeg
        .windows(2)
        .position(|pair| pair == [0xff, 0xc0])
        .expect("a frame");
    // After the marker, a length and the bits of a number: height and width.
    jpeg[frame + 5..frame + 9].fill(0xff);
    for bytes in [&jpeg, &b"P6\n65535 65535\n255\n"[..]] {
        let text = problem(bytes).expect("it is too large");
        assert!(
            text.contains("its pixels would take more than 1 GiB"),
            "{text}"
        );
    }
    // A thin image whose new columns are many.
    let thin = RgbImage::new(1, 65_535);
    let all = ResizeOptions::new();
    assert!(interpolated(&mut Resizer::new(), &thin, (8192, 8192), all).is_err());
}

#[test]
fn an_image_is_resized_as_by_pil() {
    for ResizedImage { size, pixels } in reference().resized {
        let [height, width] = size;
        let all = ResizeOptions::new();
        let new = interpolated(&mut Resizer::new(), &picture(), (width, height), all);
        let furthest = furthest(&new.expect("resized"), &pixels);
        assert!(furthest <= 1, "{size:?}: {furthest}");
    }
}

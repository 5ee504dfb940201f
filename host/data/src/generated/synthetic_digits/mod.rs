//! Digits that are drawn and distorted from a seed: data that needs no download.
//!
//! Sample i of a split depends only on (seed, split, i). Drawing uses only addition, multiplication,
//! division and square roots, which every processor rounds identically, so that the bytes are the
//! same everywhere.

mod config;
mod render;
mod shapes;

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use crate::{DataError, Images};
pub use config::SyntheticDigitsConfig;
use render::{Canvas, Pose};
use sconce_ops::random::{self, Stream};

/// Number of images per chunk of parallel work.
const PART: usize = 64;

/// Checks that the options are in range.
pub(crate) fn check(config: &SyntheticDigitsConfig) -> Result<(), DataError> {
    let range = |key, range, found: f64, inside: bool| {
        if inside {
            Ok(())
        } else {
            Err(DataError::Range { key, range, found })
        }
    };
    let size = config.size as f64;
    range("train", "at least 1", config.train as f64, config.train > 0)?;
    range(
        "size",
        "from 16 to 64",
        size,
        (16..=64).contains(&config.size),
    )?;
    let (distortion, noise) = (config.distortion, config.noise);
    range(
        "distortion",
        "from 0 to 2",
        distortion,
        (0.0..=2.0).contains(&distortion),
    )?;
    range("noise", "from 0 to 1", noise, (0.0..=1.0).contains(&noise))
}

/// Draws the samples of a split, on one thread per core.
pub(crate) fn draw(config: &SyntheticDigitsConfig, seed: u64, split: &str, count: usize) -> Images {
    let pixels_of_one = config.size * config.size;
    let purpose = format!("synthetic-digits/{split}");
    let mut pixels = vec![0; count * pixels_of_one];
    let mut labels = vec![0; count];
    let parts = pixels
        .chunks_mut(PART * pixels_of_one)
        .zip(labels.chunks_mut(PART));
    let waiting = Mutex::new(parts.enumerate());
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.next()
    };
    let work = || {
        while let Some((part, (pixels, labels))) = next() {
            let images = pixels.chunks_exact_mut(pixels_of_one).zip(labels);
            for (index, (image, label)) in images.enumerate() {
                let index = (part * PART + index) as u64;
                let mut stream = random::stream(seed, &purpose, 0, index);
                let digit = stream.below(10) as u8;
                sample(config, digit, &mut stream, image);
                *label = u32::from(digit);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count.div_ceil(PART)) {
            // If the system refuses a thread, the others take over its work.
            drop(std::thread::Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    Images::new(pixels, [1, config.size, config.size], labels)
}

fn sample(config: &SyntheticDigitsConfig, digit: u8, stream: &mut Stream, image: &mut [u8]) {
    let bend = 0.05 * config.distortion;
    let strokes = shapes::strokes(digit, |()| stream.uniform(-bend, bend));
    let pose = Pose::draw(config.distortion, stream);
    let width = stream.uniform(0.04, 0.04 + 0.04 * config.distortion);
    let brightness = 1.0 - stream.uniform(0.0, 0.4 * config.distortion);
    let canvas = Canvas {
        size: config.size,
        width,
        brightness,
        noise: config.noise,
    };
    canvas.paint(&pose.place(&strokes), stream, image);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(config: &SyntheticDigitsConfig, seed: u64, split: &str, count: usize) -> Vec<u8> {
        let images = draw(config, seed, split, count);
        let mut all = Vec::new();
        for index in 0..count {
            let mut buffer = Vec::new();
            let image = images.image(index, &mut buffer).expect("in memory");
            let (pixels, label) = image.expect("an image");
            all.extend(pixels);
            all.push(label as u8);
        }
        all
    }

    #[test]
    fn a_sample_depends_on_seed_split_and_index_alone() {
        let config = SyntheticDigitsConfig::default();
        let three = small(&config, 1, "train", 3);
        let five = small(&config, 1, "train", 5);
        assert_eq!(three[..], five[..three.len()]);
        assert_ne!(three, small(&config, 2, "train", 3));
        assert_ne!(three, small(&config, 1, "val", 3));
    }

    /// Changing these numbers changes the data of every user.
    #[test]
    fn the_bytes_are_kept() {
        use sha2::{Digest, Sha256};
        for (size, distortion, noise, expected) in [
            (28, 1.0, 0.25, 0x8416_7f59_6bcf_885c),
            (16, 2.0, 0.0, 0x43fa_9efc_7272_044c),
            (64, 2.0, 1.0, 0x96a3_d800_64d6_11e4),
        ] {
            let config = SyntheticDigitsConfig {
                size,
                distortion,
                noise,
                ..SyntheticDigitsConfig::default()
            };
            let hash = Sha256::digest(small(&config, 1, "train", 100));
            let hash = hash.first_chunk().map(|&start| u64::from_be_bytes(start));
            assert_eq!(hash, Some(expected), "size {size}");
        }
    }

    #[test]
    fn all_digits_come_and_no_two_images_are_alike() {
        let config = SyntheticDigitsConfig::default();
        let images = draw(&config, 1, "train", 300);
        let mut seen = [0; 10];
        let mut all: Vec<Vec<u8>> = Vec::new();
        for index in 0..300 {
            let mut buffer = Vec::new();
            let image = images.image(index, &mut buffer).expect("in memory");
            let (pixels, label) = image.expect("an image");
            seen[label as usize] += 1;
            all.push(pixels.to_vec());
        }
        assert!(seen.iter().all(|&count: &i32| count > 10), "{seen:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn numbers_out_of_range_are_reported() {
        let default = SyntheticDigitsConfig::default;
        for (config, words) in [
            (
                SyntheticDigitsConfig {
                    size: 15,
                    ..default()
                },
                "`data.size` must be from 16 to 64, found 15",
            ),
            (
                SyntheticDigitsConfig {
                    train: 0,
                    ..default()
                },
                "`data.train` must be at least 1",
            ),
            (
                SyntheticDigitsConfig {
                    noise: -0.1,
                    ..default()
                },
                "`data.noise`",
            ),
            (
                SyntheticDigitsConfig {
                    distortion: f64::NAN,
                    ..default()
                },
                "`data.distortion`",
            ),
        ] {
            let error = check(&config).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

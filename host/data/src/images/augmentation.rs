//! Random augmentation of training images, on their bytes.
//!
//! A sample's random numbers depend only on (seed, epoch, index), and there are always the same three
//! draws: neither the other samples of the batch nor the number of threads changes a pixel, and a
//! flip stays the same when a crop is added.

use super::{AugmentConfig, Flip, ImagesError};
use sconce_ops::random;

/// Augmentation options, checked against the images' shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Augmentation {
    seed: u64,
    /// Border on each side, in pixels.
    padding: usize,
    flip: Option<Flip>,
}

/// Random draw for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Draw {
    /// Row of the crop in the image with its border, at most twice the border; `left` is its column.
    top: usize,
    left: usize,
    /// Whether the image is flipped.
    flipped: bool,
}

impl Augmentation {
    /// Creates the augmentation, or none if nothing is configured.
    pub(crate) fn new(
        config: &AugmentConfig,
        [_, height, width]: [usize; 3],
        seed: u64,
    ) -> Result<Option<Augmentation>, ImagesError> {
        let padding = config.crop.map_or(0, |crop| crop.padding);
        if padding > 0 && padding >= height.min(width) {
            return Err(ImagesError::Padding {
                padding,
                height,
                width,
            });
        }
        Ok((!config.is_nothing()).then_some(Augmentation {
            seed,
            padding,
            flip: config.flip,
        }))
    }

    /// Draws the augmentation of a sample in an epoch.
    pub(super) fn draw(&self, epoch: u64, index: u32) -> Draw {
        let mut stream = random::stream(self.seed, "augment", epoch, u64::from(index));
        let places = 2 * self.padding as u64 + 1;
        Draw {
            top: stream.below(places) as usize,
            left: stream.below(places) as usize,
            flipped: stream.below(2) == 1,
        }
    }

    /// Writes the augmented image to `into`, whose contents are replaced.
    pub(super) fn apply(
        &self,
        draw: Draw,
        pixels: &[u8],
        [_, height, width]: [usize; 3],
        into: &mut Vec<u8>,
    ) {
        into.clear();
        let mirrored = |flip| draw.flipped && self.flip == Some(flip);
        // Columns of the crop that are inside the image, and the width of the border on their left.
        let border = self.padding.saturating_sub(draw.left).min(width);
        let first = draw.left.saturating_sub(self.padding).min(width);
        let columns = first..(first + width - border).min(width);
        for plane in pixels.chunks_exact((height * width).max(1)) {
            for y in 0..height {
                let y = if mirrored(Flip::Vertical) {
                    height - 1 - y
                } else {
                    y
                };
                let start = into.len();
                let end = start + width;
                into.resize(start + border, 0);
                let row = (y + draw.top).checked_sub(self.padding);
                if let Some(row) = row.and_then(|row| plane.chunks_exact(width.max(1)).nth(row)) {
                    into.extend(row.get(columns.clone()).unwrap_or_default());
                }
                into.resize(end, 0);
                if mirrored(Flip::Horizontal) {
                    into.get_mut(start..).unwrap_or_default().reverse();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

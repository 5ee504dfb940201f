//! Random augmentation of training images, on their bytes.
//!
//! **Parts.** `config`: the manifest's keys. `shift`: crops and flips. `warp`: rotations and other affine maps. `tone`:
//! brightness and colours. `rand_augment`: random choices among those. `erase`: black rectangles. `mix`: two images of a batch
//! as one. `views`: several images of one, by the same operations and others.
//!
//! **Flow.** [`Augmentation::new`] checks the options against the images' shape. For each sample [`Augmentation::apply`]
//! goes through the operations in the order of [`AugmentConfig`]'s keys. A sample's random numbers depend only on (seed,
//! epoch, index), and each operation has a stream of its own: neither the other samples of the batch nor the number of
//! threads changes a pixel, and an operation draws the same numbers whatever else is configured. Angles and areas go
//! through `libm`, which has the same bits on every system.

mod config;
mod erase;
mod mix;
mod rand_augment;
mod shift;
mod tone;
mod views;
mod warp;

pub use config::{
    AugmentConfig, ColourConfig, CropConfig, CutmixConfig, EraseConfig, Flip, MixupConfig,
    RandAugmentConfig, RotateConfig,
};
pub use views::{BlurConfig, GreyConfig, SolariseConfig, ViewConfig, ViewCropConfig};
pub(crate) use views::{Views, resized};

use crate::error::ImagesError;
use mix::Mix;
use sconce_ops::random;
use shift::Shift;
use tone::GREY_WEIGHTS;

/// Augmentation options, checked against the images' shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Augmentation {
    seed: u64,
    shift: Shift,
    rotate: Option<RotateConfig>,
    colour: Option<ColourConfig>,
    rand_augment: Option<RandAugmentConfig>,
    erase: Option<EraseConfig>,
    mix: Mix,
}

/// Pixels of one image during augmentation.
struct Canvas<'a> {
    /// Channel by channel, in row-major order.
    pixels: &'a mut Vec<u8>,
    /// Channels, height, width.
    shape: [usize; 3],
}

impl Canvas<'_> {
    /// Pixels of a channel; at least 1.
    fn plane(&self) -> usize {
        (self.shape[1] * self.shape[2]).max(1)
    }

    /// Brightness of each pixel: Rec. 601's for three channels, as in PIL, else the first channel.
    fn greys(&self) -> Vec<u8> {
        let mut planes = self.pixels.chunks_exact(self.plane());
        match (planes.next(), planes.next(), planes.next()) {
            (Some(red), Some(green), Some(blue)) => {
                let pixels = red.iter().zip(green).zip(blue);
                pixels
                    .map(|((&red, &green), &blue)| {
                        let [of_red, of_green, of_blue] = GREY_WEIGHTS;
                        let sum = u32::from(red) * of_red
                            + u32::from(green) * of_green
                            + u32::from(blue) * of_blue;
                        ((sum + 0x8000) >> 16) as u8
                    })
                    .collect()
            }
            (first, ..) => first.unwrap_or_default().to_vec(),
        }
    }
}

impl Augmentation {
    /// Creates the augmentation, or none if nothing is configured.
    ///
    /// # Errors
    ///
    /// If an option is out of range or does not fit images of this shape.
    pub(crate) fn new(
        config: &AugmentConfig,
        shape: [usize; 3],
        seed: u64,
    ) -> Result<Option<Augmentation>, ImagesError> {
        config.check(shape)?;
        Ok((!config.is_nothing()).then_some(Augmentation {
            seed,
            shift: Shift {
                padding: config.crop.map_or(0, |crop| crop.padding),
                flip: config.flip,
            },
            rotate: config.rotate,
            colour: config.colour,
            rand_augment: config.rand_augment,
            erase: config.erase,
            mix: Mix {
                mixup: config.mixup,
                cutmix: config.cutmix,
            },
        }))
    }

    /// Mixes the images of a batch, given as a model's inputs, with each other; returns for each the other one's place in the
    /// batch, and the share of its own. None if images aren't mixed.
    pub(super) fn mix(
        &self,
        (epoch, first): (u64, u32),
        inputs: &mut [f32],
        count: usize,
        shape: [usize; 3],
    ) -> Option<(Vec<u32>, f64)> {
        let mut stream = random::stream(self.seed, "augment-mix", epoch, u64::from(first));
        self.mix.apply(&mut stream, inputs, count, shape)
    }

    /// Writes the augmented image of a sample in an epoch to `into`, whose contents are replaced.
    ///
    /// Not inlined: which operations there are would be looked up before the loop over samples, also where there is no
    /// augmentation, and memcheck takes that for a branch on what was never written.
    #[inline(never)]
    pub(super) fn apply(
        &self,
        (epoch, index): (u64, u32),
        pixels: &[u8],
        shape: [usize; 3],
        into: &mut Vec<u8>,
    ) {
        let stream = |purpose| random::stream(self.seed, purpose, epoch, u64::from(index));
        let draw = self.shift.draw(&mut stream("augment"));
        self.shift.apply(draw, pixels, shape, into);
        let mut canvas = Canvas {
            pixels: into,
            shape,
        };
        if let Some(rotate) = self.rotate {
            let angle = stream("augment-rotate").uniform(-rotate.degrees, rotate.degrees);
            canvas.warp(&warp::rotation(angle));
        }
        if let Some(colour) = self.colour {
            canvas.jitter(colour, &mut stream("augment-colour"));
        }
        if let Some(rand_augment) = self.rand_augment {
            canvas.rand_augment(rand_augment, &mut stream("augment-rand"));
        }
        if let Some(erase) = self.erase {
            canvas.erase(erase, &mut stream("augment-erase"));
        }
    }
}

#[cfg(test)]
mod operations_tests;
#[cfg(test)]
mod tests;

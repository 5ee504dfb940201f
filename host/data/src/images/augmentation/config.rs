//! Augmentation in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ImagesError;

/// Random augmentation of training images; never applied in validation, test or predictions.
///
/// A sample's augmentation depends only on the seed, the epoch and the sample's index. The operations are applied in the
/// order of these keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Random shift: the image gets a black border and is cropped to its size at a random position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<CropConfig>,
    /// Random flip, with probability ½.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
    /// Random rotation about the centre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate: Option<RotateConfig>,
    /// Random brightness, contrast, saturation and hue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<ColourConfig>,
    /// Randomly chosen operations of a common strength: `RandAugment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_augment: Option<RandAugmentConfig>,
    /// A random rectangle is made black.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erase: Option<EraseConfig>,
    /// Each image of a batch is averaged with another of it, and so are their targets in the loss: mixup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixup: Option<MixupConfig>,
    /// A rectangle of each image of a batch is taken from another of it, whose target counts by the area: `CutMix`. With
    /// `mixup` too, each batch has one of the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutmix: Option<CutmixConfig>,
}

/// A random shift by padding and cropping to the image's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CropConfig {
    /// Width of the border on each side in pixels, the maximum shift. Must be below the images' height
    /// and width.
    pub padding: usize,
}

/// A flip with probability ½.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flip {
    /// Exchanges left and right.
    Horizontal,
    /// Exchanges top and bottom.
    Vertical,
}

/// A rotation by a uniformly random angle, interpolated linearly; what comes from outside is black.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateConfig {
    /// Maximum angle in degrees, in both directions.
    #[schemars(range(min = 0, max = 180))]
    pub degrees: f64,
}

/// Random factors for brightness, contrast and saturation, and a random shift of the hue, applied in this order.
///
/// The operations of torchvision's `ColorJitter`, in a fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ColourConfig {
    /// Probability with which an image is changed.
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
    /// Maximum change of the brightness: a factor from 1 − `brightness` to 1 + `brightness`.
    #[schemars(range(min = 0, max = 1))]
    pub brightness: f64,
    /// Maximum change of the contrast: the distance from the image's mean brightness is multiplied by a factor from
    /// 1 − `contrast` to 1 + `contrast`.
    #[schemars(range(min = 0, max = 1))]
    pub contrast: f64,
    /// Maximum change of the saturation: the distance from a pixel's brightness is multiplied by a factor from
    /// 1 − `saturation` to 1 + `saturation`. Needs three channels.
    #[schemars(range(min = 0, max = 1))]
    pub saturation: f64,
    /// Maximum shift of the hue in both directions, as a fraction of the colour circle. Needs three channels.
    #[schemars(range(min = 0, max = 0.5))]
    pub hue: f64,
}

impl Default for ColourConfig {
    fn default() -> Self {
        ColourConfig {
            probability: 1.0,
            brightness: 0.0,
            contrast: 0.0,
            saturation: 0.0,
            hue: 0.0,
        }
    }
}

/// Operations chosen at random among fourteen, one after the other, all of the same strength.
///
/// `RandAugment` (Cubuk et al., 2019), with the operations and strengths of torchvision's: identity, shear and translation
/// along both axes, rotation, brightness, saturation, contrast, sharpness, posterise, solarise, autocontrast, equalise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RandAugmentConfig {
    /// Number of operations applied to each image.
    #[schemars(range(min = 1, max = 14))]
    pub operations: u32,
    /// Strength of the operations; 30 is the strongest.
    #[schemars(range(min = 0, max = 30))]
    pub magnitude: u32,
}

impl Default for RandAugmentConfig {
    fn default() -> Self {
        RandAugmentConfig {
            operations: 2,
            magnitude: 9,
        }
    }
}

/// A rectangle of random size, aspect ratio and position that becomes black.
///
/// Random erasing (Zhong et al., 2017), with the defaults of torchvision's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EraseConfig {
    /// Probability with which an image is changed.
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
    /// Smallest and largest area, as fractions of the image's.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub area: [f64; 2],
    /// Smallest and largest ratio of height to width, above 0.
    #[schemars(inner(range(min = 0.01, max = 100)))]
    pub aspect: [f64; 2],
}

impl Default for EraseConfig {
    fn default() -> Self {
        EraseConfig {
            probability: 0.5,
            area: [0.02, 0.33],
            aspect: [0.3, 3.3],
        }
    }
}

/// Weighted averages of two images of a batch, and of the losses of their targets.
///
/// mixup (Zhang et al., 2017); as torchvision's, with one weight for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MixupConfig {
    /// Both parameters of the beta distribution that the weight is drawn from: 1 for uniform weights, less for weights
    /// nearer to 0 and 1.
    #[schemars(range(min = 0.01, max = 100))]
    pub alpha: f64,
}

impl Default for MixupConfig {
    fn default() -> Self {
        MixupConfig { alpha: 0.2 }
    }
}

/// A random rectangle of another image of the batch, at the same place.
///
/// `CutMix` (Yun et al., 2019); as torchvision's, with one rectangle for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CutmixConfig {
    /// Both parameters of the beta distribution that the rectangle's area is drawn from, as a fraction of the image's: 1
    /// for uniform areas.
    #[schemars(range(min = 0.01, max = 100))]
    pub alpha: f64,
}

impl Default for CutmixConfig {
    fn default() -> Self {
        CutmixConfig { alpha: 1.0 }
    }
}

impl AugmentConfig {
    /// Whether there is no augmentation.
    pub fn is_nothing(&self) -> bool {
        let AugmentConfig {
            crop,
            flip,
            rotate,
            colour,
            rand_augment,
            erase,
            mixup,
            cutmix,
        } = self;
        flip.is_none()
            && crop.is_none_or(|crop| crop.padding == 0)
            && rotate.is_none_or(|rotate| rotate.degrees <= 0.0)
            && colour.is_none_or(|colour| colour == ColourConfig::default())
            && rand_augment.is_none()
            && erase.is_none_or(|erase| erase.probability <= 0.0)
            && mixup.is_none()
            && cutmix.is_none()
    }

    /// Checks the options against the images' shape.
    pub(super) fn check(&self, [channels, height, width]: [usize; 3]) -> Result<(), ImagesError> {
        let padding = self.crop.map_or(0, |crop| crop.padding);
        if padding > 0 && padding >= height.min(width) {
            return Err(ImagesError::Padding {
                padding,
                height,
                width,
            });
        }
        for (key, value, range) in self.numbers() {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(ImagesError::Augment {
                    key,
                    found: value,
                    least,
                    most,
                });
            }
        }
        let needs_colours = self.colour.and_then(|colour| {
            let of_colours = [("saturation", colour.saturation), ("hue", colour.hue)];
            of_colours.into_iter().find(|(_, value)| *value > 0.0)
        });
        match needs_colours {
            Some((key, _)) if channels != 3 => Err(ImagesError::Grey { key, channels }),
            _ => Ok(()),
        }
    }

    /// All numbers of the configuration by key, with their ranges.
    fn numbers(&self) -> Vec<(&'static str, f64, std::ops::RangeInclusive<f64>)> {
        let mut numbers = Vec::new();
        if let Some(rotate) = self.rotate {
            numbers.push(("rotate.degrees", rotate.degrees, 0.0..=180.0));
        }
        if let Some(colour) = self.colour {
            numbers.extend([
                ("colour.probability", colour.probability, 0.0..=1.0),
                ("colour.brightness", colour.brightness, 0.0..=1.0),
                ("colour.contrast", colour.contrast, 0.0..=1.0),
                ("colour.saturation", colour.saturation, 0.0..=1.0),
                ("colour.hue", colour.hue, 0.0..=0.5),
            ]);
        }
        if let Some(RandAugmentConfig {
            operations,
            magnitude,
        }) = self.rand_augment
        {
            numbers.extend([
                ("rand_augment.operations", f64::from(operations), 1.0..=14.0),
                ("rand_augment.magnitude", f64::from(magnitude), 0.0..=30.0),
            ]);
        }
        let alphas = [
            ("mixup.alpha", self.mixup.map(|mixup| mixup.alpha)),
            ("cutmix.alpha", self.cutmix.map(|cutmix| cutmix.alpha)),
        ];
        for (key, alpha) in alphas {
            numbers.extend(alpha.map(|alpha| (key, alpha, 0.01..=100.0)));
        }
        if let Some(EraseConfig {
            probability,
            area: [small, large],
            aspect: [flat, tall],
        }) = self.erase
        {
            numbers.extend([
                ("erase.probability", probability, 0.0..=1.0),
                ("erase.area[1]", large, 0.0..=1.0),
                ("erase.area[0]", small, 0.0..=large),
                ("erase.aspect[1]", tall, 0.01..=100.0),
                ("erase.aspect[0]", flat, 0.01..=tall),
            ]);
        }
        numbers
    }
}

//! Views in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{ColourConfig, Flip};
use crate::error::ImagesError;

/// Most views of a sample.
const MOST: usize = 64;

/// Largest height and width of a view.
const LARGEST: f64 = 8192.0;

/// Some views of each training sample: images that are drawn from it at random in the same way.
///
/// A view depends only on the seed, the epoch, the sample's index and the view's number. The operations are applied in the
/// order of these keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ViewConfig {
    /// Number of such views.
    #[schemars(range(min = 1, max = 64))]
    pub count: usize,
    /// Height and width in pixels. Default: those of the images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(inner(inner(range(min = 1, max = 8192))))]
    pub size: Option<[usize; 2]>,
    /// A random rectangle of the image, resized to the view's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<ViewCropConfig>,
    /// Random flip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
    /// Probability of the flip.
    #[schemars(range(min = 0, max = 1))]
    pub flip_probability: f64,
    /// Random brightness, contrast, saturation and hue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<ColourConfig>,
    /// All channels become the brightness. Needs three channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grey: Option<GreyConfig>,
    /// Gaussian blur.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blur: Option<BlurConfig>,
    /// Bright pixels are inverted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solarise: Option<SolariseConfig>,
}

/// A rectangle of random area, aspect ratio and position: torchvision's `RandomResizedCrop`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ViewCropConfig {
    /// Smallest and largest area, as fractions of the image's, above 0.
    #[schemars(inner(range(min = 0.001, max = 1)))]
    pub scale: [f64; 2],
    /// Smallest and largest ratio of width to height.
    #[schemars(inner(range(min = 0.01, max = 100)))]
    pub aspect: [f64; 2],
}

/// How often a view is grey.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GreyConfig {
    /// Probability with which a view is grey.
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
}

/// A blur by a normal distribution of random width.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BlurConfig {
    /// Probability with which a view is blurred.
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
    /// Smallest and largest standard deviation in pixels.
    #[schemars(inner(range(min = 0.01, max = 100)))]
    pub sigma: [f64; 2],
}

/// How often which pixels are inverted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SolariseConfig {
    /// Probability with which a view is solarised.
    #[schemars(range(min = 0, max = 1))]
    pub probability: f64,
    /// Smallest pixel that is inverted, from 0 to 255.
    #[schemars(range(min = 0, max = 255))]
    pub threshold: f64,
}

impl Default for ViewConfig {
    fn default() -> Self {
        ViewConfig {
            count: 1,
            size: None,
            crop: None,
            flip: None,
            flip_probability: 0.5,
            colour: None,
            grey: None,
            blur: None,
            solarise: None,
        }
    }
}

impl Default for ViewCropConfig {
    fn default() -> Self {
        ViewCropConfig {
            scale: [0.08, 1.0],
            aspect: [3.0 / 4.0, 4.0 / 3.0],
        }
    }
}

impl Default for GreyConfig {
    fn default() -> Self {
        GreyConfig { probability: 0.2 }
    }
}

impl Default for BlurConfig {
    fn default() -> Self {
        BlurConfig {
            probability: 0.5,
            sigma: [0.1, 2.0],
        }
    }
}

impl Default for SolariseConfig {
    fn default() -> Self {
        SolariseConfig {
            probability: 0.2,
            threshold: 128.0,
        }
    }
}

/// Checks all entries of `views` against the images' shape.
pub(super) fn check(views: &[ViewConfig], shape: [usize; 3]) -> Result<(), ImagesError> {
    for (entry, view) in views.iter().enumerate() {
        view.check(entry, shape)?;
    }
    let count = views.iter().map(|view| view.count).sum();
    if count > MOST {
        return Err(ImagesError::ViewCount { count, most: MOST });
    }
    Ok(())
}

impl ViewConfig {
    /// The shape of such a view of an image.
    pub(super) fn shape(&self, [channels, height, width]: [usize; 3]) -> [usize; 3] {
        let [height, width] = self.size.unwrap_or([height, width]);
        [channels, height, width]
    }

    fn check(&self, entry: usize, [channels, ..]: [usize; 3]) -> Result<(), ImagesError> {
        for (key, found, range) in self.numbers() {
            if !range.contains(&found) {
                let (least, most) = range.into_inner();
                return Err(ImagesError::View {
                    entry,
                    key,
                    found,
                    least,
                    most,
                });
            }
        }
        let needs_colours = [
            (
                "colour.saturation",
                self.colour.is_some_and(|colour| colour.saturation > 0.0),
            ),
            (
                "colour.hue",
                self.colour.is_some_and(|colour| colour.hue > 0.0),
            ),
            ("grey", self.grey.is_some()),
        ];
        match needs_colours.into_iter().find(|(_, needs)| *needs) {
            Some((key, _)) if channels != 3 => Err(ImagesError::ViewOfGrey {
                entry,
                key,
                channels,
            }),
            _ => Ok(()),
        }
    }

    /// All numbers of the configuration by key, with their ranges.
    fn numbers(&self) -> Vec<(&'static str, f64, std::ops::RangeInclusive<f64>)> {
        let mut numbers = vec![
            ("count", self.count as f64, 1.0..=MOST as f64),
            ("flip_probability", self.flip_probability, 0.0..=1.0),
        ];
        if let Some([height, width]) = self.size {
            numbers.extend([
                ("size[0]", height as f64, 1.0..=LARGEST),
                ("size[1]", width as f64, 1.0..=LARGEST),
            ]);
        }
        if let Some(ViewCropConfig {
            scale: [small, large],
            aspect: [tall, flat],
        }) = self.crop
        {
            numbers.extend([
                ("crop.scale[1]", large, 0.001..=1.0),
                ("crop.scale[0]", small, 0.001..=large),
                ("crop.aspect[1]", flat, 0.01..=100.0),
                ("crop.aspect[0]", tall, 0.01..=flat),
            ]);
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
        if let Some(GreyConfig { probability }) = self.grey {
            numbers.push(("grey.probability", probability, 0.0..=1.0));
        }
        if let Some(BlurConfig {
            probability,
            sigma: [sharp, soft],
        }) = self.blur
        {
            numbers.extend([
                ("blur.probability", probability, 0.0..=1.0),
                ("blur.sigma[1]", soft, 0.01..=100.0),
                ("blur.sigma[0]", sharp, 0.01..=soft),
            ]);
        }
        if let Some(SolariseConfig {
            probability,
            threshold,
        }) = self.solarise
        {
            numbers.extend([
                ("solarise.probability", probability, 0.0..=1.0),
                ("solarise.threshold", threshold, 0.0..=255.0),
            ]);
        }
        numbers
    }
}

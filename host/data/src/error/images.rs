//! Errors in the preparation of images.

/// Options that do not fit the images.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImagesError {
    /// The number of means or deviations differs from the number of channels.
    #[error(
        "`data.normalise` has {means} in `mean` and {deviations} in `deviation`, but the images \
         have {channels}: give one number per channel"
    )]
    Channels {
        /// Number of means.
        means: usize,
        /// Number of deviations.
        deviations: usize,
        /// Number of channels of the images.
        channels: usize,
    },
    /// A mean or deviation is out of range for pixels from 0 to 1.
    #[error(
        "`data.normalise.{key}` has {found}, but must be {range}: of pixels from 0 to 1, so divide \
         those of pixels from 0 to 255 by 255"
    )]
    Range {
        /// Option, `mean` or `deviation`.
        key: &'static str,
        /// Value in the manifest.
        found: f64,
        /// Allowed range in words.
        range: &'static str,
    },
    /// The border is as large as the image.
    #[error(
        "`data.augment.crop.padding` must be below the images' height and width ({height} and \
         {width}), found {padding}: a crop could have nothing but the border"
    )]
    Padding {
        /// Width of the border.
        padding: usize,
        /// Height of the images.
        height: usize,
        /// Width of the images.
        width: usize,
    },
    /// An augmentation option is out of range.
    #[error("`data.augment.{key}` must be from {least} to {most}, found {found}")]
    Augment {
        /// Path of the option.
        key: &'static str,
        /// Value in the manifest.
        found: f64,
        /// Smallest value.
        least: f64,
        /// Largest value.
        most: f64,
    },
    /// An augmentation of colours needs three channels.
    #[error(
        "`data.augment.colour.{key}` needs images with three channels, red, green and blue; these \
         have {channels}: leave it out"
    )]
    Grey {
        /// Option, `saturation` or `hue`.
        key: &'static str,
        /// Number of channels of the images.
        channels: usize,
    },
}

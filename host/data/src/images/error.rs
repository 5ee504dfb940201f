//! What can be wrong with how images are to be made ready.

/// Why images can't be made ready.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ImagesError {
    /// Not one mean and one deviation per channel.
    #[error(
        "`data.normalise` has {means} in `mean` and {deviations} in `deviation`, but the images \
         have {channels}: give one number per channel"
    )]
    Channels {
        /// How many means.
        means: usize,
        /// How many deviations.
        deviations: usize,
        /// How many channels the images have.
        channels: usize,
    },
    /// A mean or deviation that none of pixels can be.
    #[error(
        "`data.normalise.{key}` has {found}, but must be {range}: of pixels from 0 to 1, so divide \
         those of pixels from 0 to 255 by 255"
    )]
    Range {
        /// `mean` or `deviation`.
        key: &'static str,
        /// The number.
        found: f64,
        /// The range in words.
        range: &'static str,
    },
    /// A border that is as large as the image.
    #[error(
        "`data.augment.crop.padding` must be below the images' height and width ({height} and \
         {width}), found {padding}: a crop could have nothing but the border"
    )]
    Padding {
        /// The border's width.
        padding: usize,
        /// The images' height.
        height: usize,
        /// The images' width.
        width: usize,
    },
}

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
    /// An option of a view is out of range.
    #[error("`views[{entry}].{key}` must be from {least} to {most}, found {found}")]
    View {
        /// Entry of `data.views`, from 0.
        entry: usize,
        /// Path of the option.
        key: &'static str,
        /// Value in the manifest.
        found: f64,
        /// Smallest value.
        least: f64,
        /// Largest value.
        most: f64,
    },
    /// Colours of views of grey images.
    #[error(
        "`views[{entry}].{key}` needs images with three channels, red, green and blue; these have {channels}: leave it out"
    )]
    ViewOfGrey {
        /// Entry of `data.views`, from 0.
        entry: usize,
        /// Path of the option.
        key: &'static str,
        /// Number of channels of the images.
        channels: usize,
    },
    /// Views that are evaluated have another size than the model's inputs.
    #[error(
        "the views have the size {found:?}, but the model is for images of {images:?} (height and width): leave `size` out"
    )]
    ViewSize {
        /// Height and width of the views.
        found: [usize; 2],
        /// Height and width that the model is for.
        images: [usize; 2],
    },
    /// There are too many views.
    #[error("`views` has {count} views of each sample, but at most {most} are possible")]
    ViewCount {
        /// Number of views of all entries.
        count: usize,
        /// Largest number.
        most: usize,
    },
    /// Views are not a list of entries as those of the manifest's `data.views`.
    #[error(
        "the views are not a list as that of `data.views`, such as `[{{\"flip\": \"horizontal\"}}]`: {0}"
    )]
    UnreadableViews(String),
    /// A list of views has no entry.
    #[error("the list of views is empty: give at least one, such as `{{}}`, the image as it is")]
    NoView,
    /// Labels are left out, though they are targets.
    #[error(
        "`data.labels` is missing: give the file of the images' labels, or `\"targets\": \"none\"` for images without targets"
    )]
    NoLabels,
    /// There are views and augmentation.
    #[error(
        "`data.augment` and `data.views` exclude each other: give the operations in `data.views`"
    )]
    ViewsAndAugment,
}

//! The format in which images are stored, and how much a file may claim to decode to.

use image::ImageError;
use image::error::{LimitError, LimitErrorKind};
use serde::{Deserialize, Serialize};

use super::{ColourMode, Resize};

/// Maximum size in bytes of an image as it is decoded, before it is resized. A file of some bytes can claim any size.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// Format in which images are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecodedFormat {
    pub(crate) mode: ColourMode,
    /// Height and width.
    pub(crate) size: [usize; 2],
    /// How images of other sizes are resized; none: they are errors.
    pub(crate) resize: Option<Resize>,
}

impl DecodedFormat {
    /// Returns channels, height and width.
    pub(crate) fn shape(self) -> [usize; 3] {
        let [height, width] = self.size;
        [self.mode.channels(), height, width]
    }

    /// Returns the number of bytes of an image.
    pub(super) fn bytes(&self) -> Option<usize> {
        let [height, width] = self.size;
        let channels = self.mode.channels();
        channels.checked_mul(height)?.checked_mul(width)
    }

    /// Returns the number of bytes of this many images; the largest number if there is none so large.
    pub(super) fn total(&self, images: usize) -> u64 {
        let bytes = self.bytes().and_then(|bytes| bytes.checked_mul(images));
        bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }
}

/// Whether so many bytes may be allocated for an image.
pub(super) fn check_size(bytes: u64) -> Result<(), ImageError> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let kind = LimitErrorKind::InsufficientMemory;
    Err(ImageError::Limits(LimitError::from_kind(kind)))
}

//! Random crops and flips, in one pass over the rows.
//!
//! There are always the same three draws, so that a flip stays the same when a crop is added.

use sconce_ops::random::Stream;

use crate::images::Flip;

/// A crop from the image with a black border, and a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// Border on each side, in pixels.
    pub(super) padding: usize,
    pub(super) flip: Option<Flip>,
}

/// Random draw for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Draw {
    /// Row of the crop in the image with its border, at most twice the border; `left` is its column.
    pub(super) top: usize,
    pub(super) left: usize,
    /// Whether the image is flipped.
    pub(super) flipped: bool,
}

impl Shift {
    /// Draws the crop and flip of a sample.
    pub(super) fn draw(self, stream: &mut Stream) -> Draw {
        let positions = 2 * self.padding as u64 + 1;
        Draw {
            top: stream.below(positions) as usize,
            left: stream.below(positions) as usize,
            flipped: stream.below(2) == 1,
        }
    }

    /// Writes the cropped and flipped image to `into`, whose contents are replaced.
    pub(super) fn apply(
        self,
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

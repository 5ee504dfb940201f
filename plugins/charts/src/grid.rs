//! Grids of small images in one PNG picture.

use crate::{Error, font};

/// A small image.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// Values by channel, row and column (C x H x W).
    pub values: &'a [f32],
    /// Caption below it, cut to the available width; see [`ImageGrid::caption_scale`].
    pub caption: &'a str,
}

/// Values that are drawn black and white.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GridRange {
    /// The minimum and the maximum over all images.
    Common,
    /// The minimum and the maximum of each image.
    EachImage,
    /// Fixed values; those beyond them are clamped.
    Fixed(f32, f32),
}

/// Images of one shape side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageGrid {
    /// Channels of each image: 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// Height of each image in pixels.
    pub height: usize,
    /// Width of each image in pixels.
    pub width: usize,
    /// Images per row; by default about as many as there are rows.
    pub columns: Option<usize>,
    /// Size of an image's pixels, in pixels of the picture.
    pub scale: usize,
    /// White pixels between images and around them.
    pub padding: usize,
    /// Values that are drawn black and white.
    pub range: GridRange,
    /// Size of a caption's pixels, in pixels of the picture. Letters have 3 by 5 pixels with one between
    /// them.
    pub caption_scale: usize,
}

/// Maximum number of pixels of a picture, far more than a grid of small images needs.
const MOST_PIXELS: usize = 1 << 26;

impl ImageGrid {
    /// Creates a grid of images with `channels` (1 or 3), `height` and `width`: scaled by three, with a
    /// padding of 4 pixels, captions of 10 pixels and a common range.
    pub fn new(channels: usize, height: usize, width: usize) -> Self {
        Self {
            channels,
            height,
            width,
            columns: None,
            scale: 3,
            padding: 4,
            range: GridRange::Common,
            caption_scale: 2,
        }
    }

    /// Returns the picture as a PNG file, greyscale or RGB with 8 bits. Values that are not finite are red
    /// (in which case a greyscale grid becomes RGB).
    ///
    /// # Errors
    ///
    /// If the images do not have the shape of the grid, there are none, or the picture would have more than
    /// 67 million pixels.
    pub fn png(&self, images: &[Image<'_>]) -> Result<Vec<u8>, Error> {
        let layout = self.layout(images)?;
        let mut canvas = Canvas::new(layout.width, layout.height);
        let common = match self.range {
            GridRange::Fixed(low, high) => Some((low, high)),
            GridRange::Common => Some(extremes(images.iter().flat_map(|image| image.values))),
            GridRange::EachImage => None,
        };
        for (index, image) in images.iter().enumerate() {
            let left = self.padding + index % layout.columns * (layout.cell.0 + self.padding);
            let top = self.padding + index / layout.columns * (layout.cell.1 + self.padding);
            let range = common.unwrap_or_else(|| extremes(image.values.iter()));
            self.draw(&mut canvas, image.values, (left, top), range);
            let below = top + self.height * self.scale + self.caption_scale;
            self.write(&mut canvas, image.caption, (left, below));
        }
        canvas.encode()
    }

    fn layout(&self, images: &[Image<'_>]) -> Result<Layout, Error> {
        let wrong = |why| Error::Shape {
            what: "a grid of images",
            why,
        };
        if !matches!(self.channels, 1 | 3) {
            return Err(wrong(format!("{} channels, not 1 or 3", self.channels)));
        }
        if images.is_empty() || self.scale == 0 {
            return Err(wrong("there is nothing to draw".to_owned()));
        }
        let sides = self.height.checked_mul(self.width);
        let values = sides
            .and_then(|pixels| pixels.checked_mul(self.channels))
            .unwrap_or(0);
        if let Some(other) = images
            .iter()
            .find(|image| image.values.len() != values || values == 0)
        {
            let (channels, height, width) = (self.channels, self.height, self.width);
            let length = other.values.len();
            return Err(wrong(format!(
                "an image of {length} values where {channels} x {height} x {width} are expected"
            )));
        }
        let captions = images.iter().any(|image| !image.caption.is_empty());
        let caption = if captions {
            (font::HEIGHT + 2) * self.caption_scale
        } else {
            0
        };
        let cell = (
            self.width.saturating_mul(self.scale),
            self.height
                .saturating_mul(self.scale)
                .saturating_add(caption),
        );
        let square = (images.len() as f64).sqrt().ceil() as usize;
        let columns = self.columns.unwrap_or(square).clamp(1, images.len());
        let side = |count: usize, cell: usize| {
            count
                .saturating_mul(cell.saturating_add(self.padding))
                .saturating_add(self.padding)
        };
        let width = side(columns, cell.0);
        let height = side(images.len().div_ceil(columns), cell.1);
        if width.saturating_mul(height) > MOST_PIXELS {
            return Err(wrong(format!("{width} x {height} pixels are too many")));
        }
        Ok(Layout {
            columns,
            cell,
            width,
            height,
        })
    }

    fn draw(&self, canvas: &mut Canvas, values: &[f32], at: (usize, usize), range: (f32, f32)) {
        let pixels = self.height * self.width;
        let (low, high) = range;
        let level = |value: f32| {
            let part = if high > low {
                (value - low) / (high - low)
            } else {
                0.5
            };
            value
                .is_finite()
                .then(|| (part.clamp(0.0, 1.0) * 255.0).round() as u8)
        };
        for pixel in 0..pixels {
            let channel =
                |index: usize| values.get(index * pixels + pixel).copied().and_then(level);
            let colour = if self.channels == 1 {
                channel(0).map(|grey| [grey; 3])
            } else {
                channel(0)
                    .zip(channel(1))
                    .zip(channel(2))
                    .map(|((r, g), b)| [r, g, b])
            };
            let colour = colour.unwrap_or(NOT_A_NUMBER);
            let left = at.0 + pixel % self.width * self.scale;
            let top = at.1 + pixel / self.width * self.scale;
            canvas.fill(left, top, self.scale, colour);
        }
    }

    /// Writes as much of `caption` as fits below an image.
    fn write(&self, canvas: &mut Canvas, caption: &str, (left, top): (usize, usize)) {
        let advance = (font::WIDTH + 1) * self.caption_scale;
        // The last letter needs no space after it.
        let room = (self.width * self.scale + self.caption_scale) / advance.max(1);
        for (index, letter) in caption.chars().take(room).enumerate() {
            for (y, x) in (0..font::HEIGHT).flat_map(|y| (0..font::WIDTH).map(move |x| (y, x))) {
                if font::ink(letter, x, y) {
                    let left = left + index * advance + x * self.caption_scale;
                    canvas.fill(left, top + y * self.caption_scale, self.caption_scale, INK);
                }
            }
        }
    }
}

const NOT_A_NUMBER: [u8; 3] = [220, 30, 30];
const INK: [u8; 3] = [51, 51, 51];

struct Layout {
    columns: usize,
    /// Width and height of an image including its caption.
    cell: (usize, usize),
    width: usize,
    height: usize,
}

/// Returns the minimum and the maximum of the finite values.
fn extremes<'a>(values: impl Iterator<Item = &'a f32>) -> (f32, f32) {
    values
        .filter(|value| value.is_finite())
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
}

/// RGB pixels in row-major order, initially white.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            pixels: vec![[255; 3]; width * height],
        }
    }

    /// Fills a square, clipped to the picture.
    fn fill(&mut self, left: usize, top: usize, side: usize, colour: [u8; 3]) {
        for y in top..(top + side).min(self.height) {
            let start = y * self.width;
            let row = start + left..start + (left + side).min(self.width);
            if let Some(row) = self.pixels.get_mut(row) {
                row.fill(colour);
            }
        }
    }

    fn encode(&self) -> Result<Vec<u8>, Error> {
        let grey = self.pixels.iter().all(|[r, g, b]| r == g && g == b);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_color(if grey {
            png::ColorType::Grayscale
        } else {
            png::ColorType::Rgb
        });
        let mut writer = encoder.write_header()?;
        if grey {
            let grey: Vec<u8> = self.pixels.iter().map(|[level, ..]| *level).collect();
            writer.write_image_data(&grey)?;
        } else {
            writer.write_image_data(self.pixels.as_flattened())?;
        }
        writer.finish()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a PNG file into width, height, bytes per pixel and pixel data.
    fn decode(file: &[u8]) -> (usize, usize, usize, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file))
            .read_info()
            .unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let samples = info.color_type.samples();
        (info.width as usize, info.height as usize, samples, bytes)
    }

    fn plain(values: &[f32]) -> Image<'_> {
        Image {
            values,
            caption: "",
        }
    }

    fn small(range: GridRange) -> ImageGrid {
        ImageGrid {
            scale: 1,
            padding: 1,
            range,
            ..ImageGrid::new(1, 1, 2)
        }
    }

    #[test]
    fn images_are_side_by_side_with_padding() {
        let images = [[0.0, 1.0], [2.0, 4.0], [1.0, 3.0]];
        let images: Vec<_> = images.iter().map(|image| plain(image)).collect();
        let (width, height, samples, bytes) =
            decode(&small(GridRange::Common).png(&images).unwrap());
        assert_eq!((width, height, samples), (7, 5, 1));
        assert_eq!(bytes[7..14], [255, 0, 64, 255, 128, 255, 255]);
        assert_eq!(bytes[21..28], [255, 64, 191, 255, 255, 255, 255]);
        let one_row = ImageGrid {
            columns: Some(9),
            ..small(GridRange::Common)
        };
        assert_eq!(decode(&one_row.png(&images).unwrap()).0, 10);
    }

    #[test]
    fn ranges() {
        let images = [plain(&[0.0, 1.0]), plain(&[2.0, 4.0])];
        let each = decode(&small(GridRange::EachImage).png(&images).unwrap()).3;
        assert_eq!(each[7..14], [255, 0, 255, 255, 0, 255, 255]);
        let fixed = decode(&small(GridRange::Fixed(1.0, 3.0)).png(&images).unwrap()).3;
        assert_eq!(fixed[7..14], [255, 0, 0, 255, 128, 255, 255]);
    }

    #[test]
    fn colours_scale_and_values_that_are_no_numbers() {
        let grid = ImageGrid {
            scale: 2,
            padding: 0,
            range: GridRange::Fixed(0.0, 1.0),
            ..ImageGrid::new(3, 1, 1)
        };
        let (width, height, samples, bytes) =
            decode(&grid.png(&[plain(&[1.0, 0.0, 0.2])]).unwrap());
        assert_eq!((width, height, samples), (2, 2, 3));
        assert_eq!(bytes, [255, 0, 51].repeat(4));
        let bad = decode(&grid.png(&[plain(&[1.0, f32::NAN, 0.2])]).unwrap()).3;
        assert_eq!(bad[..3], NOT_A_NUMBER);
    }

    #[test]
    fn captions_stand_below_and_are_cut_where_the_image_ends() {
        let grid = ImageGrid {
            scale: 1,
            padding: 0,
            caption_scale: 1,
            ..ImageGrid::new(1, 1, 7)
        };
        let of = |caption| {
            decode(
                &grid
                    .png(&[Image {
                        values: &[0.0; 7],
                        caption,
                    }])
                    .unwrap(),
            )
        };
        let (width, height, _, bytes) = of("7|!");
        assert_eq!((width, height), (7, 8));
        let dark: Vec<_> = bytes[7 * 2..7 * 3]
            .iter()
            .map(|level| *level == INK[0])
            .collect();
        assert_eq!(dark, [true, true, true, false, false, true, false]);
        assert_eq!(bytes, of("7|").3, "there is no room for a third letter");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let grid = ImageGrid::new(1, 2, 2);
        let error = grid.png(&[plain(&[0.0; 3])]).unwrap_err().to_string();
        assert!(
            error.ends_with("an image of 3 values where 1 x 2 x 2 are expected"),
            "{error}"
        );
        assert!(grid.png(&[]).is_err());
        assert!(ImageGrid::new(2, 2, 2).png(&[plain(&[0.0; 8])]).is_err());
        assert!(
            ImageGrid {
                scale: 1 << 30,
                ..grid
            }
            .png(&[plain(&[0.0; 4])])
            .is_err()
        );
        assert!(ImageGrid::new(1, usize::MAX, 2).png(&[plain(&[])]).is_err());
    }
}

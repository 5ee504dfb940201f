//! Rectangles of an image, resized to all of it.

use std::ops::Range;

use sconce_ops::random::Stream;

use super::ViewCropConfig;

/// Number of rectangles drawn until one fits.
const TRIES: usize = 10;

/// Part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

impl Rectangle {
    /// All of an image.
    pub(super) fn whole([_, height, width]: [usize; 3]) -> Rectangle {
        Rectangle {
            rows: 0..height,
            columns: 0..width,
        }
    }
}

impl ViewCropConfig {
    /// Draws a rectangle; if none fits, takes the largest one of an allowed aspect ratio at the centre.
    pub(super) fn draw(self, [_, height, width]: [usize; 3], stream: &mut Stream) -> Rectangle {
        let [small, large] = self.scale;
        let [tall, flat] = self.aspect.map(libm::log);
        for _ in 0..TRIES {
            let area = stream.uniform(small, large) * (height * width) as f64;
            let aspect = libm::exp(stream.uniform(tall, flat));
            let rows = libm::round((area / aspect).sqrt()) as usize;
            let columns = libm::round((area * aspect).sqrt()) as usize;
            if (1..=height).contains(&rows) && (1..=width).contains(&columns) {
                let top = stream.below((height - rows + 1) as u64) as usize;
                let left = stream.below((width - columns + 1) as u64) as usize;
                return Rectangle {
                    rows: top..top + rows,
                    columns: left..left + columns,
                };
            }
        }
        self.central(height, width)
    }

    fn central(self, height: usize, width: usize) -> Rectangle {
        let [tall, flat] = self.aspect;
        let found = width as f64 / height.max(1) as f64;
        let (mut rows, mut columns) = (height, width);
        if found < tall {
            rows = (libm::round(width as f64 / tall) as usize).clamp(1, height.max(1));
        } else if found > flat {
            columns = (libm::round(height as f64 * flat) as usize).clamp(1, width.max(1));
        }
        let (top, left) = ((height - rows) / 2, (width - columns) / 2);
        Rectangle {
            rows: top..top + rows,
            columns: left..left + columns,
        }
    }
}

/// Writes a rectangle of each channel to `into`, resized to another height and width, in place of what it holds. Interpolates
/// linearly over all pixels that a new one covers, as PIL's `BILINEAR`.
pub(super) fn resized(
    pixels: &[u8],
    from @ [_, height, width]: [usize; 3],
    rectangle @ Rectangle { rows, columns }: &Rectangle,
    to @ [_, new_height, new_width]: [usize; 3],
    into: &mut Vec<u8>,
) {
    into.clear();
    if from == to && *rectangle == Rectangle::whole(from) {
        into.extend_from_slice(pixels);
        return;
    }
    let of_rows = Weights::new(rows.len(), new_height);
    let of_columns = Weights::new(columns.len(), new_width);
    let (mut wide, mut sums) = (Vec::with_capacity(rows.len() * new_width), Vec::new());
    for plane in pixels.chunks_exact((height * width).max(1)) {
        wide.clear();
        let lines = plane.chunks_exact(width.max(1));
        for line in lines.skip(rows.start).take(rows.len()) {
            let line = line.get(columns.clone()).unwrap_or_default();
            wide.extend(of_columns.iter().map(|(first, weights)| {
                let covered = line.iter().skip(first).zip(weights);
                covered
                    .map(|(&pixel, weight)| f32::from(pixel) * weight)
                    .sum::<f32>()
            }));
        }
        for (first, weights) in of_rows.iter() {
            sums.clear();
            sums.resize(new_width, 0.5_f32);
            let lines = wide.chunks_exact(new_width.max(1));
            for (line, weight) in lines.skip(first).zip(weights) {
                for (sum, value) in sums.iter_mut().zip(line) {
                    *sum += value * weight;
                }
            }
            into.extend(sums.iter().map(|&sum| sum as u8));
        }
    }
}

/// For each new pixel of a line, the first pixel that it covers, and the weights of these.
struct Weights {
    firsts: Vec<usize>,
    /// As many for each new pixel; those beyond what it covers are 0.
    values: Vec<f32>,
    each: usize,
}

impl Weights {
    /// For a line of `from` pixels that becomes one of `to`.
    fn new(from: usize, to: usize) -> Weights {
        let scale = from as f64 / to.max(1) as f64;
        let reach = scale.max(1.0);
        let each = 2 * reach.ceil() as usize + 1;
        let mut all = Weights {
            firsts: Vec::with_capacity(to),
            values: Vec::with_capacity(to * each),
            each,
        };
        for place in 0..to {
            let centre = (place as f64 + 0.5) * scale;
            let first = (centre - reach).max(0.0) as usize;
            let weight = |pixel: usize| {
                let distance = (pixel as f64 + 0.5 - centre).abs() / reach;
                if pixel < from {
                    (1.0 - distance).max(0.0)
                } else {
                    0.0
                }
            };
            let sum: f64 = (first..first + each).map(weight).sum();
            all.firsts.push(first);
            let weights = (first..first + each).map(|pixel| (weight(pixel) / sum) as f32);
            all.values.extend(weights);
        }
        all
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        self.firsts
            .iter()
            .copied()
            .zip(self.values.chunks_exact(self.each))
    }
}

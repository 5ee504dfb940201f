//! Brightness and colours of an image.
//!
//! Each function computes what PIL's `ImageEnhance` and `ImageOps` do; results are rounded to the nearest byte.

use sconce_ops::random::Stream;

use super::{Canvas, ColourConfig};

/// Weights of red, green and blue in the brightness, in 65536ths: Rec. 601's, with PIL's rounding.
pub(super) const GREY_WEIGHTS: [u32; 3] = [19595, 38470, 7471];

impl Canvas<'_> {
    /// Applies random brightness, contrast, saturation and hue, with the configured probability. There are always five draws.
    pub(super) fn jitter(&mut self, colour: ColourConfig, stream: &mut Stream) {
        let mut factor = |change: f64| stream.uniform(1.0 - change, 1.0 + change);
        let brightness = factor(colour.brightness);
        let contrast = factor(colour.contrast);
        let saturation = factor(colour.saturation);
        let hue = stream.uniform(-colour.hue, colour.hue);
        if stream.unit() >= colour.probability {
            return;
        }
        if colour.brightness > 0.0 {
            self.brighten(brightness);
        }
        if colour.contrast > 0.0 {
            self.contrast(contrast);
        }
        if colour.saturation > 0.0 {
            self.saturate(saturation);
        }
        if colour.hue > 0.0 {
            self.shift_hue(hue);
        }
    }

    /// Multiplies the brightness.
    pub(super) fn brighten(&mut self, factor: f64) {
        self.map(|pixel| blended(0.0, pixel, factor));
    }

    /// Multiplies the distance from the mean brightness, which is rounded to a byte.
    pub(super) fn contrast(&mut self, factor: f64) {
        let greys = self.greys();
        let sum: u64 = greys.iter().copied().map(u64::from).sum();
        let mean = (sum as f64 / greys.len().max(1) as f64).round();
        self.map(|pixel| blended(mean, pixel, factor));
    }

    /// Multiplies the distance of a pixel's channels from its brightness.
    pub(super) fn saturate(&mut self, factor: f64) {
        let greys = self.greys();
        let plane = self.plane();
        for channel in self.pixels.chunks_exact_mut(plane) {
            for (pixel, &grey) in channel.iter_mut().zip(&greys) {
                *pixel = blended(f64::from(grey), *pixel, factor);
            }
        }
    }

    /// Shifts the hue by a fraction of the colour circle; saturation and value stay. Does nothing unless there are three
    /// channels.
    pub(super) fn shift_hue(&mut self, shift: f64) {
        let plane = self.plane();
        let mut planes = self.pixels.chunks_exact_mut(plane);
        let (Some(red), Some(green), Some(blue)) = (planes.next(), planes.next(), planes.next())
        else {
            return;
        };
        for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
            let shifted = with_hue_shifted([*red, *green, *blue], shift);
            [*red, *green, *blue] = shifted;
        }
    }

    /// Blends the image with its smoothed version, away from it for factors above 1: PIL's sharpness. Pixels at the
    /// edges stay.
    pub(super) fn sharpen(&mut self, factor: f64) {
        let [_, height, width] = self.shape;
        if height < 3 || width < 3 {
            return;
        }
        let source = self.pixels.clone();
        let planes = source.chunks_exact(height * width);
        for (plane, into) in planes.zip(self.pixels.chunks_exact_mut(height * width)) {
            let rows: Vec<&[u8]> = plane.chunks_exact(width).collect();
            let inner = into.chunks_exact_mut(width).skip(1);
            for (row, into) in rows.windows(3).zip(inner) {
                let columns = into.iter_mut().skip(1).take(width - 2);
                for (start, pixel) in columns.enumerate() {
                    let near = |row: &&[u8]| -> u32 {
                        let three = row.iter().skip(start).take(3);
                        three.copied().map(u32::from).sum()
                    };
                    let sum: u32 = row.iter().map(near).sum();
                    let smooth = f64::from(sum + 4 * u32::from(*pixel)) / 13.0;
                    *pixel = blended(smooth.round(), *pixel, factor);
                }
            }
        }
    }

    /// Keeps the upper bits of each pixel.
    pub(super) fn posterise(&mut self, bits: u32) {
        let mask = 0xff_u8.checked_shl(8_u32.saturating_sub(bits)).unwrap_or(0);
        self.map(|pixel| pixel & mask);
    }

    /// Inverts all pixels from a threshold on.
    pub(super) fn solarise(&mut self, threshold: f64) {
        self.map(|pixel| {
            if f64::from(pixel) >= threshold {
                255 - pixel
            } else {
                pixel
            }
        });
    }

    /// Stretches each channel to the range from 0 to 255.
    pub(super) fn autocontrast(&mut self) {
        let plane = self.plane();
        for channel in self.pixels.chunks_exact_mut(plane) {
            let (Some(&least), Some(&most)) = (channel.iter().min(), channel.iter().max()) else {
                continue;
            };
            if least < most {
                let scale = 255.0 / f64::from(most - least);
                for pixel in channel {
                    *pixel = byte(f64::from(*pixel - least) * scale);
                }
            }
        }
    }

    /// Makes the brightnesses of each channel equally frequent, as far as can be.
    pub(super) fn equalise(&mut self) {
        let plane = self.plane();
        for channel in self.pixels.chunks_exact_mut(plane) {
            let mut counts = [0_usize; 256];
            for &pixel in channel.iter() {
                counts[usize::from(pixel)] += 1;
            }
            let last = counts.iter().rev().find(|&&count| count > 0);
            let step = (channel.len() - last.copied().unwrap_or(0)) / 255;
            if step == 0 {
                continue;
            }
            let mut table = [0_u8; 256];
            let mut below = step / 2;
            for (count, entry) in counts.iter().zip(&mut table) {
                *entry = u8::try_from(below / step).unwrap_or(u8::MAX);
                below += count;
            }
            for pixel in channel {
                *pixel = table[usize::from(*pixel)];
            }
        }
    }

    fn map(&mut self, change: impl Fn(u8) -> u8) {
        for pixel in self.pixels.iter_mut() {
            *pixel = change(*pixel);
        }
    }
}

/// Returns the byte at `factor` of the way from `from` to `pixel`, which may lie beyond it.
fn blended(from: f64, pixel: u8, factor: f64) -> u8 {
    byte(from + (f64::from(pixel) - from) * factor)
}

/// Rounds to the nearest byte.
fn byte(value: f64) -> u8 {
    (value + 0.5) as u8
}

/// Shifts the hue of a colour: to HSV and back, by Smith's hexcone model (1978).
fn with_hue_shifted(colour: [u8; 3], shift: f64) -> [u8; 3] {
    let [red, green, blue] = colour.map(f64::from);
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = most - least;
    if range <= 0.0 {
        return colour;
    }
    // Position on the hexagon of colours, from 0 to 6.
    let sector = if red >= most {
        (green - blue) / range
    } else if green >= most {
        (blue - red) / range + 2.0
    } else {
        (red - green) / range + 4.0
    };
    let sector = (sector + 6.0 * shift).rem_euclid(6.0);
    let channel = |offset: f64| {
        let distance = (offset + sector).rem_euclid(6.0);
        most - range * distance.min(4.0 - distance).clamp(0.0, 1.0)
    };
    [channel(5.0), channel(3.0), channel(1.0)].map(byte)
}

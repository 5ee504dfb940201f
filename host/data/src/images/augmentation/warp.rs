//! Affine maps of an image about its centre.

use super::Canvas;

/// Matrix that takes a point of the result, relative to the centre, to the point of the image that it shows: rows (x, y),
/// each of the coefficients of x, y and 1.
pub(super) type Inverse = [[f64; 3]; 2];

/// Returns the inverse map of a rotation by an angle in degrees, counter-clockwise.
pub(super) fn rotation(degrees: f64) -> Inverse {
    let (sine, cosine) = libm::sincos(degrees.to_radians());
    [[cosine, -sine, 0.0], [sine, cosine, 0.0]]
}

impl Canvas<'_> {
    /// Replaces each pixel by what the image has at the point that `inverse` takes it to, interpolated linearly between
    /// four pixels; outside the image is black.
    pub(super) fn warp(&mut self, inverse: &Inverse) {
        let [_, height, width] = self.shape;
        if height == 0 || width == 0 {
            return;
        }
        let centre_x = (width - 1) as f64 / 2.0;
        let centre_y = (height - 1) as f64 / 2.0;
        let source = std::mem::take(self.pixels);
        self.pixels.reserve(source.len());
        let [to_x, to_y] = inverse;
        for plane in source.chunks_exact(height * width) {
            for row in 0..height {
                let y = row as f64 - centre_y;
                for column in 0..width {
                    let x = column as f64 - centre_x;
                    let from = |[of_x, of_y, constant]: &[f64; 3]| of_x * x + of_y * y + constant;
                    let point = (from(to_x) + centre_x, from(to_y) + centre_y);
                    self.pixels.push(interpolated(plane, height, width, point));
                }
            }
        }
    }
}

/// Returns the brightness at a point, interpolated linearly between the four pixels about it.
fn interpolated(plane: &[u8], height: usize, width: usize, (x, y): (f64, f64)) -> u8 {
    let (left, top) = (x.floor(), y.floor());
    let (right_weight, bottom_weight) = (x - left, y - top);
    let pixel = |column: f64, row: f64| {
        // Comparisons with NaN are false, and the casts of what is left are exact.
        let is_inside = column >= 0.0 && row >= 0.0 && column < width as f64 && row < height as f64;
        let index = if is_inside {
            row as usize * width + column as usize
        } else {
            usize::MAX
        };
        plane.get(index).copied().map_or(0.0, f64::from)
    };
    let upper = pixel(left, top) * (1.0 - right_weight) + pixel(left + 1.0, top) * right_weight;
    let lower =
        pixel(left, top + 1.0) * (1.0 - right_weight) + pixel(left + 1.0, top + 1.0) * right_weight;
    let value = upper * (1.0 - bottom_weight) + lower * bottom_weight;
    (value + 0.5) as u8
}

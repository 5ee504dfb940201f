//! Distances of grid points from strokes, for drawing images.
//!
//! Only sums, products, quotients and square roots are used, which every processor rounds alike.

use crate::vectorised;

/// A point in the plane, (x, y).
pub type Point = (f64, f64);

vectorised! {
    /// Lowers squared distances to those from the segment between two points, where these are smaller.
    ///
    /// `nearest` has an element for each point of one line, at `y` and each of `xs`.
    pub fn lower_to_segment(nearest: &mut [f64], xs: &[f64], y: f64, from: Point, to: Point) {
        let (along_x, along_y) = (to.0 - from.0, to.1 - from.1);
        let length = along_x * along_x + along_y * along_y;
        // For a segment of length 0 any divisor will do.
        let length = if length > 0.0 { length } else { 1.0 };
        let py = y - from.1;
        for (nearest, x) in nearest.iter_mut().zip(xs) {
            let px = x - from.0;
            let along = ((px * along_x + py * along_y) / length).clamp(0.0, 1.0);
            let (dx, dy) = (px - along * along_x, py - along * along_y);
            *nearest = nearest.min(dx * dx + dy * dy);
        }
    }
}

vectorised! {
    /// Pixels from the squared distances of their centres from strokes of half-width `width`.
    ///
    /// A pixel is fully covered inside a stroke, and less and less within one pixel width of its edge. `noise` has an
    /// element for each.
    pub fn ink(
        image: &mut [u8],
        squares: &[f64],
        noise: &[f64],
        width: f64,
        pixel: f64,
        brightness: f64,
    ) {
        for ((value, square), noise) in image.iter_mut().zip(squares).zip(noise) {
            let beyond = square.sqrt() - width;
            let covered = (0.5 - beyond / pixel).clamp(0.0, 1.0);
            let bright = (covered * brightness + noise).clamp(0.0, 1.0);
            *value = (bright * 255.0 + 0.5) as i32 as u8;
        }
    }
}

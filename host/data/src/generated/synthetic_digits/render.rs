//! Transformation of strokes and painting them on a canvas.

use sconce_ops::kernels::strokes::{Point, ink, lower_to_segment};
use sconce_ops::random::Stream;

/// Transformation of a digit: rotation, shear, stretching and shift about its centre.
pub(super) struct Pose {
    matrix: [[f64; 2]; 2],
    shift: Point,
}

impl Pose {
    /// Draws a random pose; `distortion` scales the deviation from upright.
    pub(super) fn draw(distortion: f64, stream: &mut Stream) -> Pose {
        let mut amount = |most: f64| stream.uniform(-most, most) * distortion;
        // A rotation by 2·atan(t), which needs no trigonometric functions.
        let t = amount(0.16);
        let (cosine, sine) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let shear = amount(0.3);
        let (wide, high) = (0.62 + amount(0.14), 0.72 + amount(0.12));
        let shift = (amount(0.09), amount(0.09));
        // Stretch, then shear along x, then rotate.
        let (sheared, upright) = (shear * high, high);
        Pose {
            matrix: [
                [cosine * wide, cosine * sheared - sine * upright],
                [sine * wide, sine * sheared + cosine * upright],
            ],
            shift,
        }
    }

    /// Returns the segments of strokes in this pose.
    pub(super) fn place(&self, strokes: &[Vec<Point>]) -> Vec<(Point, Point)> {
        let [to_x, to_y] = self.matrix;
        let row = |[along, across]: [f64; 2], x: f64, y: f64| along * x + across * y;
        let place = |&(x, y): &Point| {
            let (x, y) = (x - 0.5, y - 0.5);
            (
                0.5 + row(to_x, x, y) + self.shift.0,
                0.5 + row(to_y, x, y) + self.shift.1,
            )
        };
        strokes
            .iter()
            .flat_map(|stroke| stroke.windows(2))
            .filter_map(|side| match side {
                [from, to] => Some((place(from), place(to))),
                _ => None,
            })
            .collect()
    }
}

/// Canvas and pen for painting strokes.
pub(super) struct Canvas {
    /// Width and height in pixels.
    pub(super) size: usize,
    /// Half the strokes' width, as a fraction of the canvas.
    pub(super) width: f64,
    /// Brightness of the strokes, from 0 to 1.
    pub(super) brightness: f64,
    /// Amplitude of the noise, from 0 to 1.
    pub(super) noise: f64,
}

impl Canvas {
    /// Paints segments to an image in row-major order.
    pub(super) fn paint(&self, segments: &[(Point, Point)], stream: &mut Stream, image: &mut [u8]) {
        let pixel = 1.0 / self.size as f64;
        let mut nearest = vec![f64::INFINITY; self.size * self.size];
        let centre = |index: usize| (index as f64 + 0.5) * pixel;
        let centres: Vec<f64> = (0..self.size).map(centre).collect();
        for &segment in segments {
            self.measure(segment, &centres, &mut nearest);
        }
        let noise: Vec<f64> = (nearest.iter())
            .map(|_| stream.uniform(-self.noise, self.noise))
            .collect();
        ink(image, &nearest, &noise, self.width, pixel, self.brightness);
    }

    /// Updates each pixel's squared distance from the nearest segment, for the pixels within reach of this
    /// segment: it adds no ink to others.
    fn measure(&self, segment: (Point, Point), centres: &[f64], nearest: &mut [f64]) {
        let pixel = 1.0 / self.size as f64;
        let ((x1, y1), (x2, y2)) = segment;
        let reach = self.width + pixel;
        let range = |a: f64, b: f64| {
            let index = |at: f64| ((at / pixel).max(0.0) as usize).min(self.size);
            index(a.min(b) - reach)..index(a.max(b) + reach + pixel)
        };
        let columns = range(x1, x2);
        let xs = centres.get(columns.clone()).unwrap_or_default();
        let rows = range(y1, y2);
        for (row, y) in centres.iter().enumerate().take(rows.end).skip(rows.start) {
            let start = row * self.size;
            let reached = nearest.get_mut(start + columns.start..start + columns.end);
            lower_to_segment(reached.unwrap_or_default(), xs, *y, (x1, y1), (x2, y2));
        }
    }
}

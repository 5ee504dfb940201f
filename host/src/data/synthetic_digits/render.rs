//! Placing strokes on a canvas and painting them.

use super::shapes::Point;
use crate::random::Stream;

/// Where and how a digit lies: rotated, sheared, stretched and shifted about its middle.
pub(super) struct Pose {
    matrix: [[f64; 2]; 2],
    shift: Point,
}

impl Pose {
    /// A pose at random; `distortion` scales how far from upright it may be.
    pub(super) fn draw(distortion: f64, stream: &mut Stream) -> Pose {
        let mut amount = |most: f64| stream.uniform(-most, most) * distortion;
        // A rotation by 2·atan(t): cosine and sine without their functions.
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

    /// The segments of strokes in this pose.
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

/// What strokes are painted on, and with.
pub(super) struct Canvas {
    /// Width and height in pixels.
    pub(super) size: usize,
    /// Half the strokes' width, as a share of the canvas.
    pub(super) width: f64,
    /// The strokes' brightness, from 0 to 1.
    pub(super) brightness: f64,
    /// The noise's amplitude, from 0 to 1.
    pub(super) noise: f64,
}

impl Canvas {
    /// Paints segments, and appends the pixels row by row.
    pub(super) fn paint(
        &self,
        segments: &[(Point, Point)],
        stream: &mut Stream,
        pixels: &mut Vec<u8>,
    ) {
        let pixel = 1.0 / self.size as f64;
        let mut nearest = vec![f64::INFINITY; self.size * self.size];
        for &segment in segments {
            self.measure(segment, &mut nearest);
        }
        for square in nearest {
            // How much of the pixel is covered: 1 inside a stroke, falling to 0 over a pixel at its
            // edge.
            let beyond = square.sqrt() - self.width;
            let ink = (0.5 - beyond / pixel).clamp(0.0, 1.0);
            let noise = stream.uniform(-self.noise, self.noise);
            let value = (ink * self.brightness + noise).clamp(0.0, 1.0);
            pixels.push((value * 255.0 + 0.5) as u8);
        }
    }

    /// Lowers the square of each pixel's distance from the nearest segment to that from this one,
    /// for the pixels that it can reach: farther ones get no ink from it.
    fn measure(&self, segment: (Point, Point), nearest: &mut [f64]) {
        let pixel = 1.0 / self.size as f64;
        let ((x1, y1), (x2, y2)) = segment;
        let reach = self.width + pixel;
        let range = |a: f64, b: f64| {
            let index = |at: f64| ((at / pixel).max(0.0) as usize).min(self.size);
            index(a.min(b) - reach)..index(a.max(b) + reach + pixel)
        };
        for row in range(y1, y2) {
            for column in range(x1, x2) {
                let centre = ((column as f64 + 0.5) * pixel, (row as f64 + 0.5) * pixel);
                let square = square_distance(segment, centre);
                if let Some(nearest) = nearest.get_mut(row * self.size + column) {
                    *nearest = nearest.min(square);
                }
            }
        }
    }
}

/// The square of the distance of a point from a segment.
fn square_distance((from, to): (Point, Point), point: Point) -> f64 {
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let (px, py) = (point.0 - from.0, point.1 - from.1);
    let length = x * x + y * y;
    let along = if length > 0.0 {
        ((px * x + py * y) / length).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let (dx, dy) = (px - along * x, py - along * y);
    dx * dx + dy * dy
}

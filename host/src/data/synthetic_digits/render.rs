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
        for row in 0..self.size {
            for column in 0..self.size {
                let centre = ((column as f64 + 0.5) * pixel, (row as f64 + 0.5) * pixel);
                let ink = self.ink(segments, centre, pixel);
                let noise = stream.uniform(-self.noise, self.noise);
                let value = (ink * self.brightness + noise).clamp(0.0, 1.0);
                pixels.push((value * 255.0 + 0.5) as u8);
            }
        }
    }

    /// How much of a pixel is covered: 1 inside a stroke, falling to 0 over a pixel at its edge.
    fn ink(&self, segments: &[(Point, Point)], centre: Point, pixel: f64) -> f64 {
        let nearest = segments
            .iter()
            .map(|&segment| square_distance(segment, centre))
            .fold(f64::INFINITY, f64::min);
        let beyond = nearest.sqrt() - self.width;
        (0.5 - beyond / pixel).clamp(0.0, 1.0)
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

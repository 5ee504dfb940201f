//! Shapes of the digits: strokes in a unit square, x to the right and y down.

/// A point of the unit square.
pub(super) use sconce_ops::kernels::strokes::Point;

/// A polyline, and whether its corners are rounded.
struct Shape {
    points: &'static [Point],
    round: bool,
}

const fn round(points: &'static [Point]) -> Shape {
    Shape {
        points,
        round: true,
    }
}

const fn straight(points: &'static [Point]) -> Shape {
    Shape {
        points,
        round: false,
    }
}

#[rustfmt::skip]
const DIGITS: [&[Shape]; 10] = [
    &[round(&[(0.5, 0.07), (0.27, 0.12), (0.2, 0.35), (0.2, 0.65), (0.27, 0.88), (0.5, 0.93),
              (0.73, 0.88), (0.8, 0.65), (0.8, 0.35), (0.73, 0.12), (0.5, 0.07)])],
    &[straight(&[(0.33, 0.27), (0.55, 0.07), (0.55, 0.93)])],
    &[round(&[(0.22, 0.3), (0.26, 0.1), (0.5, 0.05), (0.74, 0.1), (0.78, 0.32), (0.6, 0.55),
              (0.22, 0.92)]),
      straight(&[(0.22, 0.92), (0.8, 0.92)])],
    &[round(&[(0.22, 0.15), (0.42, 0.06), (0.7, 0.1), (0.76, 0.3), (0.62, 0.46), (0.42, 0.48)]),
      round(&[(0.42, 0.48), (0.68, 0.5), (0.82, 0.68), (0.72, 0.9), (0.45, 0.95), (0.2, 0.84)])],
    &[straight(&[(0.65, 0.93), (0.65, 0.07), (0.18, 0.65), (0.85, 0.65)])],
    &[straight(&[(0.75, 0.08), (0.3, 0.08), (0.26, 0.45)]),
      round(&[(0.26, 0.45), (0.5, 0.36), (0.76, 0.46), (0.82, 0.68), (0.7, 0.9), (0.45, 0.95),
              (0.2, 0.85)])],
    &[round(&[(0.68, 0.08), (0.4, 0.2), (0.24, 0.5), (0.24, 0.78), (0.38, 0.95), (0.62, 0.95),
              (0.78, 0.76), (0.7, 0.54), (0.48, 0.49), (0.27, 0.64)])],
    &[straight(&[(0.2, 0.08), (0.8, 0.08), (0.42, 0.93)])],
    &[round(&[(0.5, 0.48), (0.26, 0.36), (0.26, 0.12), (0.5, 0.05), (0.74, 0.12), (0.74, 0.36),
              (0.5, 0.48), (0.22, 0.62), (0.22, 0.88), (0.5, 0.95), (0.78, 0.88), (0.78, 0.62),
              (0.5, 0.48)])],
    &[round(&[(0.73, 0.36), (0.52, 0.51), (0.3, 0.46), (0.22, 0.24), (0.38, 0.05), (0.62, 0.05),
              (0.76, 0.22), (0.76, 0.5), (0.6, 0.8), (0.32, 0.92)])],
];

/// Returns the strokes of a digit, with every corner moved by values of `bend`, in x and then in y.
pub(super) fn strokes(digit: u8, mut bend: impl FnMut(()) -> f64) -> Vec<Vec<Point>> {
    let shapes = DIGITS.get(usize::from(digit)).copied().unwrap_or(&[]);
    shapes
        .iter()
        .map(|shape| {
            let moved: Vec<Point> = shape
                .points
                .iter()
                .map(|&(x, y)| (x + bend(()), y + bend(())))
                .collect();
            if shape.round {
                rounded(&rounded(&moved))
            } else {
                moved
            }
        })
        .collect()
}

/// Cuts every corner at a quarter of its sides (Chaikin, 1974); the end points stay.
fn rounded(points: &[Point]) -> Vec<Point> {
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let between = |a: Point, b: Point, t: f64| (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
    let mut cut = vec![first];
    for side in points.windows(2) {
        if let [a, b] = *side {
            cut.push(between(a, b, 0.25));
            cut.push(between(a, b, 0.75));
        }
    }
    cut.push(last);
    cut
}

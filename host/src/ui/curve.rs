//! A curve of any length in bounded memory: neighbouring points are merged as it grows.

/// Maximum number of points; a terminal shows a few hundred.
const MOST: usize = 2048;

/// Points in ascending order, each the mean of the same number of values.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    points: Vec<(f64, f64)>,
    /// Number of values per point.
    stride: u32,
    /// The unfinished point: number of values, sum of positions, sum of values.
    open: (u32, f64, f64),
}

impl Default for Curve {
    fn default() -> Self {
        Curve {
            points: Vec::new(),
            stride: 1,
            open: (0, 0.0, 0.0),
        }
    }
}

impl Curve {
    /// Adds a value; one that is not finite can't be drawn and is skipped.
    pub(super) fn push(&mut self, place: f64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let (count, places, values) = &mut self.open;
        *count += 1;
        *places += place;
        *values += value;
        if *count < self.stride {
            return;
        }
        let count = f64::from(*count);
        self.points.push((*places / count, *values / count));
        self.open = (0, 0.0, 0.0);
        if self.points.len() >= MOST {
            self.merge();
        }
    }

    /// Replaces each pair of neighbouring points by their mean.
    fn merge(&mut self) {
        let pairs = self.points.chunks_exact(2);
        self.points = pairs
            .map(|pair| {
                let count = pair.len() as f64;
                let sum = |of: fn(&(f64, f64)) -> f64| pair.iter().map(of).sum::<f64>() / count;
                (sum(|point| point.0), sum(|point| point.1))
            })
            .collect();
        self.stride = self.stride.saturating_mul(2);
    }

    /// Removes the points after `place`.
    pub(super) fn cut(&mut self, place: f64) {
        self.points.retain(|point| point.0 <= place);
        self.open = (0, 0.0, 0.0);
    }

    /// The points so far.
    pub(super) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// Smooths a curve by the mean over neighbours, up to a fiftieth of the curve on each side.
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let side = points.len() / 50;
    let mean = |index: usize| {
        let near = index.saturating_sub(side)..points.len().min(index + side + 1);
        let near = points.get(near).unwrap_or_default();
        near.iter().map(|point| point.1).sum::<f64>() / near.len() as f64
    };
    let places = points.iter().enumerate();
    places
        .map(|(index, point)| (point.0, mean(index)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_shape_in_few_points() {
        let mut curve = Curve::default();
        for place in 0..100_000 {
            let place = f64::from(place);
            curve.push(place, 2.0 * place);
        }
        curve.push(0.0, f64::NAN);
        let points = curve.points();
        assert!((MOST / 2 - 1..MOST).contains(&points.len()));
        for (place, value) in points {
            assert!((value - 2.0 * place).abs() < 1e-6);
        }
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(points.last().is_some_and(|point| point.0 > 99_000.0));
        curve.cut(50_000.0);
        let last = curve.points().last();
        assert!(last.is_some_and(|point| (49_000.0..=50_000.0).contains(&point.0)));
    }

    #[test]
    fn smoothing_leaves_a_constant_and_calms_the_rest() {
        let flat: Vec<(f64, f64)> = (0..100).map(|x| (f64::from(x), 3.0)).collect();
        let still = smoothed(&flat);
        assert_eq!(still.len(), flat.len());
        assert!(still.iter().all(|(_, y)| (y - 3.0).abs() < 1e-9));
        let wild: Vec<(f64, f64)> = (0..400).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        let calm = smoothed(&wild);
        assert_eq!(calm.len(), wild.len());
        assert!(calm.iter().all(|(_, y)| (y - 0.5).abs() < 0.1));
        assert!(smoothed(&[]).is_empty());
    }
}

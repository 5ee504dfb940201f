//! Lines cut at the edges of a range, and the range of most values.

use std::ops::Range;

/// A point of a line, and whether it is one of the line's own: others are where the line crosses an edge.
pub(crate) type Cut = ((f64, f64), bool);

/// The pieces of a line within a range of the vertical axis. Points that are not finite leave a gap, as they do
/// without a range.
pub(crate) fn pieces(points: &[(f64, f64)], range: &Range<f64>) -> Vec<Vec<Cut>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Cut> = Vec::new();
    let is_within = |y: f64| range.start <= y && y <= range.end;
    let mut before: Option<(f64, f64)> = None;
    for &point in points {
        if !(point.0.is_finite() && point.1.is_finite()) {
            pieces.push(std::mem::take(&mut piece));
            before = None;
            continue;
        }
        let mut crossings: Vec<(f64, f64)> = before
            .map(|before| {
                [range.start, range.end]
                    .into_iter()
                    .filter_map(move |edge| crossing(before, point, edge))
            })
            .into_iter()
            .flatten()
            .collect();
        // In the order in which the line meets them.
        if before.is_some_and(|before| before.1 > point.1) {
            crossings.reverse();
        }
        piece.extend(crossings.into_iter().map(|crossing| (crossing, false)));
        if is_within(point.1) {
            piece.push((point, true));
        } else {
            pieces.push(std::mem::take(&mut piece));
        }
        before = Some(point);
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Where the line between two points crosses a height strictly between theirs.
fn crossing(from: (f64, f64), to: (f64, f64), edge: f64) -> Option<(f64, f64)> {
    let (low, high) = (from.1.min(to.1), from.1.max(to.1));
    (low < edge && edge < high).then(|| {
        let part = (edge - from.1) / (to.1 - from.1);
        (from.0 + part * (to.0 - from.0), edge)
    })
}

/// The least and the greatest value without outliers, if these would flatten the others to less than a third of the
/// axis: values beyond Tukey's outer fences, three interquartile ranges from the quartiles.
pub(crate) fn most(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        sorted
            .get((part * (sorted.len().checked_sub(1)? as f64)).round() as usize)
            .copied()
    };
    let (first, third) = (quantile(0.25)?, quantile(0.75)?);
    let room = 3.0 * (third - first);
    let inner = || {
        sorted
            .iter()
            .copied()
            .filter(|value| *value >= first - room && *value <= third + room)
    };
    let (low, high) = (inner().next()?, inner().next_back()?);
    let whole = sorted.last()? - sorted.first()?;
    (high > low && high - low < whole / 3.0).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_edges_and_go_on_behind_them() {
        let line = [(0.0, 4.0), (1.0, 0.0), (2.0, 1.0), (3.0, -3.0), (4.0, 1.0)];
        let cut = pieces(&line, &(-1.0..2.0));
        let expected = vec![
            vec![
                ((0.5, 2.0), false),
                ((1.0, 0.0), true),
                ((2.0, 1.0), true),
                ((2.5, -1.0), false),
            ],
            vec![((3.5, -1.0), false), ((4.0, 1.0), true)],
        ];
        assert_eq!(cut, expected);
        // Through the whole range, and gaps.
        let through = pieces(
            &[(0.0, -2.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 0.0)],
            &(-1.0..1.0),
        );
        let expected = vec![
            vec![((0.25, -1.0), false), ((0.75, 1.0), false)],
            vec![((3.0, 0.0), true)],
        ];
        assert_eq!(through, expected);
    }

    #[test]
    fn a_first_epoch_that_flattens_the_others_is_left_out() {
        let most = |values: &[f64]| most(values.iter().copied());
        assert_eq!(
            most(&[2.3, 0.40, 0.38, 0.37, 0.36, 0.36, 0.355]),
            Some((0.355, 0.40))
        );
        assert_eq!(
            most(&[0.1, 0.9, 0.95, 0.97, 0.98, 0.985, 0.99]),
            Some((0.9, 0.99))
        );
        // A steady descent is shown as it is, and so is what has no spread.
        let steady: Vec<f64> = (1..8).map(|epoch| 1.0 / f64::from(epoch)).collect();
        assert_eq!(most(&steady), None);
        for values in [&[][..], &[1.0], &[1.0, 1.0, 1.0, 1.0, 9.0], &[f64::NAN]] {
            assert_eq!(most(values), None);
        }
    }
}

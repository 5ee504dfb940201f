//! A run's metrics by epoch, with as many points as a chart can show.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::cli::past_runs::past_run::{PastRun, Row};

/// Largest number of points of a curve that is sent to a page.
pub(super) const MOST: usize = 1000;

/// Curves by metric, such as `val/loss`, of at most `most` points each: lists of epochs, iterations and values, where null is not
/// a number.
pub(super) fn curves(run: &PastRun, most: usize) -> Value {
    let mut curves = Map::new();
    for (phase, rows) in &run.curves {
        let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.metrics.keys()).collect();
        // Elements of tables, such as `val/confusion/3/5`, have no charts.
        for name in names.into_iter().filter(|name| !name.contains('/')) {
            curves.insert(format!("{phase}/{name}"), curve(rows, name, most));
        }
    }
    Value::Object(curves)
}

fn curve(rows: &[Row], name: &str, most: usize) -> Value {
    let points = rows
        .iter()
        .filter_map(|row| Some((row, *row.metrics.get(name)?)));
    let (rows, values): (Vec<&Row>, Vec<f64>) = points.unzip();
    let kept = thinned(&values, most);
    let of_rows = |value: fn(&Row) -> u64| {
        let rows = kept.iter().filter_map(|index| rows.get(*index));
        rows.map(|row| value(row)).collect::<Vec<_>>()
    };
    let kept_values = kept.iter().filter_map(|index| values.get(*index));
    json!({
        "epoch": of_rows(|row| row.epoch),
        "iteration": of_rows(|row| row.iteration),
        "value": kept_values.collect::<Vec<_>>(),
    })
}

/// Indices of at most `most` values that show what all do: the first, the last, and the least and the greatest of each of equal
/// stretches between them.
fn thinned(values: &[f64], most: usize) -> Vec<usize> {
    if values.len() <= most.max(2) {
        return (0..values.len()).collect();
    }
    let end = values.len() - 1;
    let mut kept = vec![0];
    let inner = values.get(1..end).unwrap_or_default();
    let stretches = (most.saturating_sub(2) / 2).max(1);
    let length = inner.len().div_ceil(stretches).max(1);
    for (stretch, values) in inner.chunks(length).enumerate() {
        let start = 1 + stretch * length;
        let known = || {
            values
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_finite())
        };
        let least = known().min_by(|one, other| one.1.total_cmp(other.1));
        let greatest = known().max_by(|one, other| one.1.total_cmp(other.1));
        let (least, greatest) = (least.map_or(0, |at| at.0), greatest.map_or(0, |at| at.0));
        kept.push(start + least.min(greatest));
        if least != greatest {
            kept.push(start + least.max(greatest));
        }
    }
    kept.push(end);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_and_many_keep_ends_and_extremes() {
        assert_eq!(thinned(&[], 10), [0; 0]);
        assert_eq!(thinned(&[1.0, f64::NAN], 10), [0, 1]);
        let mut values: Vec<f64> = (0..5000).map(|i| f64::from(i % 7)).collect();
        values[1234] = 99.0;
        values[4321] = -99.0;
        values[17] = f64::NAN;
        for most in [20, 100, 1000] {
            let kept = thinned(&values, most);
            assert!(
                kept.len() <= most && kept.len() > most / 2,
                "{}",
                kept.len()
            );
            assert!(kept.is_sorted_by(|a, b| a < b));
            assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&4999)));
            assert!(kept.contains(&1234) && kept.contains(&4321));
        }
        assert_eq!(thinned(&[f64::NAN; 50], 10).first(), Some(&0));
    }
}

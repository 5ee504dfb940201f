//! The losses by training iteration.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::{Palette, Picture, words};
use crate::thousands::grouped;
use crate::ui::curve::smoothed;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let palette = picture.palette;
    let raw = picture.state.train_loss.points();
    let val = picture.state.val_loss.points();
    let smooth = smoothed(raw);
    let mut title = vec![Span::raw(" loss  ")];
    if let Some((_, loss)) = smooth.last() {
        title.push(Span::styled("━ training ", palette.train()));
        title.push(Span::raw(format!("{} ", words::value(*loss))));
    }
    if let Some((_, loss)) = val.last() {
        title.push(Span::styled(" • validation ", palette.val()));
        title.push(Span::raw(format!("{} ", words::value(*loss))));
    }
    let Some(window) = CurveWindow::of(raw, &smooth, val) else {
        frame.render_widget(super::block(Line::from(title)), area);
        return;
    };
    if window.is_logarithmic {
        title.push(Span::styled(" logarithmic ", Palette::label()));
    }
    let block = super::block(Line::from(title));
    let [raw, smooth, val] = [raw, &smooth, val].map(|points| window.drawn(points));
    let dataset = |points, marker, graph, style: Style| {
        Dataset::default()
            .data(points)
            .marker(marker)
            .graph_type(graph)
            .style(style)
    };
    let mut datasets = Vec::new();
    if palette.has_colours() {
        // Without colours these points would hide the curve.
        let each = dataset(&raw, Marker::Braille, GraphType::Scatter, palette.faint());
        datasets.push(each);
    }
    datasets.push(dataset(
        &smooth,
        Marker::Braille,
        GraphType::Line,
        palette.train(),
    ));
    datasets.push(dataset(
        &val,
        Marker::Dot,
        GraphType::Scatter,
        palette.val(),
    ));
    let chart = Chart::new(datasets)
        .block(block)
        .legend_position(None)
        .x_axis(
            Axis::default()
                .style(Palette::label())
                .bounds(window.places)
                .labels(window.position_labels()),
        )
        .y_axis(
            Axis::default()
                .style(Palette::label())
                .bounds(window.values)
                .labels(window.value_labels(area.height)),
        );
    frame.render_widget(chart, area);
}

/// Ratio of the highest to the lowest value from which a logarithmic scale is used. A linear one would only
/// have room for the first steps of the training.
const WIDE: f64 = 30.0;

/// The visible range of the plot.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CurveWindow {
    places: [f64; 2],
    /// The lowest and the highest value, or their logarithms.
    values: [f64; 2],
    is_logarithmic: bool,
}

impl CurveWindow {
    /// The range that contains the complete curves, and all but the most extreme single iterations.
    fn of(raw: &[(f64, f64)], smooth: &[(f64, f64)], val: &[(f64, f64)]) -> Option<CurveWindow> {
        let mut values: Vec<f64> = raw.iter().map(|point| point.1).collect();
        values.sort_by(f64::total_cmp);
        let wild = values.len() / 50;
        let tame = values.get(wild..values.len() - wild).unwrap_or_default();
        let ends = [tame.first(), tame.last()].into_iter().flatten().copied();
        let curves = smooth.iter().chain(val).map(|point| point.1);
        let (mut low, mut high) = extent(ends.chain(curves))?;
        let is_logarithmic = low > 0.0 && high / low >= WIDE;
        if is_logarithmic {
            (low, high) = (low.log10(), high.log10());
        } else if high - low < f64::EPSILON * high.abs().max(1.0) {
            let room = (high.abs() * 0.1).max(1e-6);
            (low, high) = (low - room, high + room);
        }
        let places = raw.iter().chain(val).map(|point| point.0);
        let (first, last) = extent(places)?;
        Some(CurveWindow {
            places: [first, last.max(first + 1.0)],
            values: [low, high],
            is_logarithmic,
        })
    }

    /// Points in the coordinates of the plot.
    fn drawn(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        if !self.is_logarithmic {
            return points.to_vec();
        }
        let positive = points.iter().filter(|point| point.1 > 0.0);
        positive.map(|point| (point.0, point.1.log10())).collect()
    }

    fn position_labels(&self) -> Vec<String> {
        let [first, last] = self.places;
        let label = |place: f64| grouped(place.round().max(0.0) as u64);
        vec![label(first), label(f64::midpoint(first, last)), label(last)]
    }

    /// Labels, one for every few lines.
    fn value_labels(&self, height: u16) -> Vec<String> {
        let [low, high] = self.values;
        let steps = (height / 4).clamp(1, 6);
        (0..=steps)
            .map(|step| low + (high - low) * f64::from(step) / f64::from(steps))
            .map(|value| {
                let value = if self.is_logarithmic {
                    10_f64.powf(value)
                } else {
                    value
                };
                format!("{:>8}", words::value(value))
            })
            .collect()
    }
}

fn extent(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    numbers.fold(None, |extent, number| match extent {
        None => Some((number, number)),
        Some((low, high)) => Some((number.min(low), number.max(high))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_has_the_curves_and_leaves_the_wild_out() {
        let mut raw: Vec<(f64, f64)> = (1..=100)
            .map(|place| (f64::from(place), 1.0 + f64::from(place) / 100.0))
            .collect();
        raw[3].1 = 1e6;
        let window = CurveWindow::of(&raw, &[(1.0, 1.5)], &[(50.0, 0.5)]);
        let window = window.expect("points");
        assert_eq!(window.position_labels(), ["1", "51", "100"]);
        assert!((window.values[0] - 0.5).abs() < 1e-9 && window.values[1] <= 2.0);
        assert_eq!(CurveWindow::of(&[], &[], &[]), None);
        let wide = [(1.0, 10.0), (2.0, 0.01), (3.0, 0.0)];
        let window = CurveWindow::of(&[], &wide[..2], &wide[..2]).expect("points");
        assert!(window.is_logarithmic);
        assert_eq!(window.drawn(&wide), [(1.0, 1.0), (2.0, -2.0)]);
        let labels = window.value_labels(4);
        assert_eq!(labels, ["  0.0100", " 10.0000"]);
        let flat = CurveWindow::of(&[(1.0, 2.0)], &[(1.0, 2.0)], &[]).expect("a point");
        assert!(flat.values[0] < 2.0 && flat.values[1] > 2.0);
        assert_eq!(flat.position_labels(), ["1", "2", "2"]);
    }
}

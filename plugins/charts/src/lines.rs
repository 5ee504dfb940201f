//! Line charts.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::colour::{self, FAINT, INK};
use crate::{Error, axis, clip};

/// A named series of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points in the order in which they are joined. A point with a coordinate that is not finite (or not
    /// positive, on a logarithmic axis) leaves a gap.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// Creates a series named `name`.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
        }
    }
}

/// A chart of [lines](Line) with common axes.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title above the chart; empty: none.
    pub title: String,
    /// Label of the horizontal axis, with the unit.
    pub x_label: String,
    /// Label of the vertical axis, with the unit.
    pub y_label: String,
    /// Whether the horizontal axis is logarithmic.
    pub x_log: bool,
    /// Whether the vertical axis is logarithmic.
    pub y_log: bool,
    /// Values of the vertical axis that are shown, smaller one first; lines are cut at its edges. `None`: all. Not for
    /// a logarithmic axis.
    pub y_range: Option<(f64, f64)>,
    /// Width in pixels; at least 200.
    pub width: u32,
    /// Height in pixels; at least 150.
    pub height: u32,
    /// The lines; without any names there is no legend.
    pub lines: Vec<Line>,
}

/// Maximum number of points drawn per line. More than the chart's width in pixels would add nothing visible
/// and make the files as large as logs.
const MOST_POINTS: usize = 4000;

impl LineChart {
    /// Creates an empty chart of 800 by 450 pixels with linear axes.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x_label: String::new(),
            y_label: String::new(),
            x_log: false,
            y_log: false,
            y_range: None,
            width: 800,
            height: 450,
            lines: Vec::new(),
        }
    }

    /// The range of most values, if a few outliers, such as those of the first epoch, would flatten all others to less
    /// than a third of the axis.
    pub fn range_of_most(&self) -> Option<(f64, f64)> {
        let all = self.lines.iter().flat_map(|line| line.points.iter());
        clip::most(all.map(|point| point.1))
    }

    /// Returns the chart as an SVG document.
    ///
    /// A line of more than 4,000 points is thinned: the minimum and the maximum of each of 2,000 segments
    /// are drawn, so that no peak is lost.
    pub fn svg(&self) -> Result<String, Error> {
        let all = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = axis::range(all().map(|point| point.0), self.x_log, false);
        let y = match self.y_range.filter(|_| !self.y_log) {
            Some((low, high)) => axis::range([low, high].into_iter(), false, true),
            None => axis::range(all().map(|point| point.1), self.y_log, true),
        };
        let span = |range: &Range<f64>, log: bool| if log { 0.0 } else { range.end - range.start };
        let spans = (span(&x, self.x_log), span(&y, self.y_log));
        let shown = y.clone();
        match (self.x_log, self.y_log) {
            (false, false) => self.draw::<RangedCoordf64, RangedCoordf64>(x, y, spans, &shown),
            (false, true) => {
                self.draw::<RangedCoordf64, LogCoord<f64>>(x, y.log_scale(), spans, &shown)
            }
            (true, false) => {
                self.draw::<LogCoord<f64>, RangedCoordf64>(x.log_scale(), y, spans, &shown)
            }
            (true, true) => self.draw::<LogCoord<f64>, LogCoord<f64>>(
                x.log_scale(),
                y.log_scale(),
                spans,
                &shown,
            ),
        }
    }

    fn draw<X, Y>(
        &self,
        x: impl AsRangedCoord<CoordDescType = X, Value = f64>,
        y: impl AsRangedCoord<CoordDescType = Y, Value = f64>,
        spans: (f64, f64),
        shown: &Range<f64>,
    ) -> Result<String, Error>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut text = String::new();
        {
            let size = (self.width.max(200), self.height.max(150));
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE).map_err(Error::drawing)?;
            let mut chart = ChartBuilder::on(&area);
            let x_values = self.lines.iter().flat_map(|line| &line.points);
            let x_ticks = axis::ticks(x_values.map(|point| point.0));
            chart.margin(12).x_label_area_size(42).y_label_area_size(64);
            if !self.title.is_empty() {
                chart.caption(&self.title, ("sans-serif", 20, &INK));
            }
            let mut chart = chart.build_cartesian_2d(x, y).map_err(Error::drawing)?;
            chart
                .configure_mesh()
                .x_labels(x_ticks)
                .x_desc(&self.x_label)
                .y_desc(&self.y_label)
                .x_label_formatter(&|value| axis::tick(*value, spans.0))
                .y_label_formatter(&|value| axis::tick(*value, spans.1))
                .label_style(("sans-serif", 13, &INK))
                .axis_desc_style(("sans-serif", 15, &INK))
                .axis_style(INK)
                .bold_line_style(FAINT)
                .light_line_style(TRANSPARENT)
                .draw()
                .map_err(Error::drawing)?;
            for (index, line) in self.lines.iter().enumerate() {
                self.draw_line(&mut chart, index, line, shown)?;
            }
            if self.lines.iter().any(|line| !line.name.is_empty()) {
                chart
                    .configure_series_labels()
                    .position(SeriesLabelPosition::UpperRight)
                    .background_style(WHITE.mix(0.85))
                    .border_style(FAINT)
                    .label_font(("sans-serif", 13, &INK))
                    .draw()
                    .map_err(Error::drawing)?;
            }
            area.present().map_err(Error::drawing)?;
        }
        Ok(text)
    }

    fn draw_line<'a, 'b, X, Y>(
        &self,
        chart: &mut ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>,
        index: usize,
        line: &Line,
        range: &Range<f64>,
    ) -> Result<(), Error>
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let style = colour::series(index).stroke_width(2);
        let points = thin(&line.points);
        // With few points, such as epochs, each is marked.
        let marked = points.len() <= 50;
        let mut elements: Vec<DynElement<'static, SVGBackend<'b>, (f64, f64)>> = Vec::new();
        for piece in self.pieces(&points, range) {
            for (point, is_own) in &piece {
                if *is_own && (marked || piece.len() == 1) {
                    elements.push(Circle::new(*point, 3, style.filled()).into_dyn());
                }
            }
            let path: Vec<(f64, f64)> = piece.into_iter().map(|(point, _)| point).collect();
            if path.len() > 1 && colour::dashed(index) {
                elements.push(DashedPathElement::new(path, 7, 4, style).into_dyn());
            } else if path.len() > 1 {
                elements.push(PathElement::new(path, style).into_dyn());
            }
        }
        let series = chart.draw_series(elements).map_err(Error::drawing)?;
        if !line.name.is_empty() {
            series
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        Ok(())
    }
}

impl LineChart {
    /// What is drawn of a line: pieces between gaps and the edges of a range.
    fn pieces(&self, points: &[(f64, f64)], range: &Range<f64>) -> Vec<Vec<clip::Cut>> {
        if self.y_range.is_some() && !self.y_log {
            return clip::pieces(points, range);
        }
        let shown =
            |(x, y): &(f64, f64)| axis::shows(*x, self.x_log) && axis::shows(*y, self.y_log);
        let pieces = points.split(|point| !shown(point));
        let pieces = pieces.filter(|piece| !piece.is_empty());
        pieces
            .map(|piece| piece.iter().map(|point| (*point, true)).collect())
            .collect()
    }
}

/// Returns `points`, thinned if they are more than a chart can show. The minimum and the maximum of each
/// segment are kept, in their order; a segment with a gap keeps one.
fn thin(points: &[(f64, f64)]) -> Cow<'_, [(f64, f64)]> {
    if points.len() <= MOST_POINTS {
        return Cow::Borrowed(points);
    }
    let stretch = points.len().div_ceil(MOST_POINTS / 2);
    let mut kept = Vec::with_capacity(MOST_POINTS);
    for part in points.chunks(stretch) {
        let ends = part
            .iter()
            .enumerate()
            .filter(|(_, point)| point.1.is_finite());
        let least = ends.clone().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let greatest = ends.max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let (Some((first, low)), Some((second, high))) = (least, greatest) {
            match first.cmp(&second) {
                Ordering::Less => kept.extend([*low, *high]),
                Ordering::Equal => kept.push(*low),
                Ordering::Greater => kept.extend([*high, *low]),
            }
        }
        kept.extend(part.iter().find(|point| !point.1.is_finite()));
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> LineChart {
        let mut chart = LineChart::new("Loss & <rate>");
        chart.x_label = "epoch".to_owned();
        chart.y_label = "loss".to_owned();
        chart.lines = vec![
            Line::new("a<b>&\"c\"", points.iter().copied()),
            Line::new("other", [(1.0, 0.5), (3.0, 0.25)]),
        ];
        chart
    }

    /// Counts the elements `tag` in a document, which must be well formed.
    fn count(svg: &str, tag: &str) -> usize {
        let document = roxmltree::Document::parse(svg).unwrap();
        document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)))
            .count()
    }

    #[test]
    fn text_is_escaped_and_the_bytes_are_the_same_each_time() {
        let chart = chart(&[(1.0, 1.0), (2.0, 0.75), (3.0, 0.7)]);
        let svg = chart.svg().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<_> = document
            .descendants()
            .filter_map(|node| node.text())
            .map(str::trim)
            .collect();
        for text in ["Loss & <rate>", "a<b>&\"c\"", "other", "epoch", "loss"] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        assert_eq!(svg, chart.svg().unwrap());
        assert!(!svg.contains("<script") && !svg.contains("href"));
    }

    #[test]
    fn epochs_have_a_tick_each() {
        let mut chart = chart(&[(1.0, 2.0), (2.0, 4.0), (4.0, 3.0)]);
        chart.lines.truncate(1);
        let svg = chart.svg().unwrap();
        assert!(
            svg.contains(">\n2\n<") && !svg.contains(">\n1.5\n<"),
            "{svg}"
        );
    }

    #[test]
    fn a_value_that_is_no_number_leaves_a_gap() {
        let with = |middle| {
            let points = [
                (1.0, 1.0),
                (2.0, 0.9),
                (3.0, middle),
                (4.0, 0.7),
                (5.0, 0.6),
            ];
            let mut chart = LineChart::new("");
            chart.lines = vec![Line::new("", points)];
            let svg = chart.svg().unwrap();
            let lines = count(&svg, "polyline");
            (lines, count(&svg, "circle"))
        };
        let (whole, points) = with(0.8);
        assert_eq!(points, 5);
        assert_eq!(with(f64::NAN), (whole + 1, 4));
        assert_eq!(with(f64::INFINITY), (whole + 1, 4));
    }

    #[test]
    fn logarithmic_axes_leave_out_what_is_not_positive() {
        let mut chart = chart(&[(1.0, 1e-4), (10.0, 1.0), (100.0, -1.0), (1000.0, 0.0)]);
        chart.x_log = true;
        chart.y_log = true;
        let svg = chart.svg().unwrap();
        assert_eq!(count(&svg, "circle"), 4, "two points of each line");
        for label in [">\n1e-4\n<", ">\n0.01\n<", ">\n1\n<", ">\n100\n<"] {
            assert!(svg.contains(label), "{label}\n{svg}");
        }
    }

    #[test]
    fn nothing_and_what_cannot_be_shown_is_drawn_too() {
        for points in [
            &[][..],
            &[(f64::NAN, 1.0)],
            &[(0.0, f64::MAX)],
            &[(1e9, 1e-310), (1e9, 5e-324)],
        ] {
            for (x_log, y_log) in [(false, false), (true, true), (false, true)] {
                let mut chart = chart(points);
                chart.x_log = x_log;
                chart.y_log = y_log;
                chart.lines.truncate(1);
                assert!(count(&chart.svg().unwrap(), "text") > 3);
            }
        }
    }

    #[test]
    fn a_range_cuts_lines_and_no_tick_is_almost_zero() {
        let mut chart = LineChart::new("");
        chart.lines = vec![Line::new(
            "",
            [(1.0, 9.0), (2.0, 0.2), (3.0, 0.1), (4.0, -0.2), (5.0, 0.05)],
        )];
        let whole = chart.svg().unwrap();
        chart.y_range = Some((-0.2, 0.2));
        let cut = chart.svg().unwrap();
        assert_eq!((count(&whole, "circle"), count(&cut, "circle")), (5, 4));
        assert!(cut.contains(">\n0\n<") && !cut.contains("e-1"), "{cut}");
        assert!(!cut.contains(">\n8\n<") && whole.contains(">\n8\n<"));
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let mut points: Vec<_> = (0..1_000_000)
            .map(|i| (f64::from(i), f64::from(i % 10)))
            .collect();
        points[123_456].1 = 99.0;
        points[654_321].1 = f64::NAN;
        let thinned = thin(&points);
        assert!(thinned.len() <= MOST_POINTS + 1);
        assert!(thinned.contains(&(123_456.0, 99.0)));
        assert_eq!(thinned.iter().filter(|point| point.1.is_nan()).count(), 1);
        assert!(thinned.is_sorted_by_key(|point| point.0 as u32 / 500));
    }
}

//! Bar charts, including histograms.

use plotters::prelude::*;

use crate::colour::{self, FAINT, INK};
use crate::{Error, axis};

/// A chart of bars side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Title above the chart; empty: none.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis, with the unit.
    pub y_label: String,
    /// Width in pixels; at least 200.
    pub width: u32,
    /// Height in pixels; at least 150.
    pub height: u32,
    /// Bars from left to right.
    bars: Bars,
}

#[derive(Clone, Debug, PartialEq)]
enum Bars {
    Named(Vec<(String, f64)>),
    /// Edges and heights; there is one more edge than heights.
    Between(Vec<f64>, Vec<f64>),
}

impl BarChart {
    /// Creates a chart of named bars, 800 by 450 pixels. A bar whose height is not finite is left out, but
    /// keeps its name.
    pub fn new<N: Into<String>>(
        title: impl Into<String>,
        bars: impl IntoIterator<Item = (N, f64)>,
    ) -> Self {
        let bars = bars.into_iter().map(|(name, height)| (name.into(), height));
        Self::of(title.into(), Bars::Named(bars.collect()))
    }

    /// Creates a histogram with `counts` of the values between consecutive `edges`.
    ///
    /// # Errors
    ///
    /// If there is not exactly one more edge than counts, or the edges are not increasing.
    pub fn histogram(
        title: impl Into<String>,
        edges: &[f64],
        counts: &[f64],
    ) -> Result<Self, Error> {
        let wrong = |why| Error::Shape {
            what: "a histogram",
            why,
        };
        if edges.len() != counts.len() + 1 {
            let (edges, counts) = (edges.len(), counts.len());
            return Err(wrong(format!(
                "{counts} counts need {} edges, not {edges}",
                counts + 1
            )));
        }
        if !edges.is_sorted_by(|low, high| low < high) || !edges.iter().all(|x| x.is_finite()) {
            return Err(wrong("its edges do not rise".to_owned()));
        }
        let bars = Bars::Between(edges.to_vec(), counts.to_vec());
        Ok(Self::of(title.into(), bars))
    }

    fn of(title: String, bars: Bars) -> Self {
        Self {
            title,
            x_label: String::new(),
            y_label: String::new(),
            width: 800,
            height: 450,
            bars,
        }
    }

    /// Returns the chart as an SVG document. Bars start at 0.
    pub fn svg(&self) -> Result<String, Error> {
        let (x, bars, names) = match &self.bars {
            Bars::Named(bars) => {
                let x = -0.6..bars.len() as f64 - 0.4;
                let place =
                    |(i, bar): (usize, &(String, f64))| (i as f64 - 0.4, i as f64 + 0.4, bar.1);
                let placed = bars.iter().enumerate().map(place).collect();
                (x, placed, Some(bars))
            }
            Bars::Between(edges, counts) => {
                let x = axis::range(edges.iter().copied(), false, false);
                let between = edges.iter().zip(edges.iter().skip(1)).zip(counts);
                let placed: Vec<_> = between
                    .map(|((low, high), count)| (*low, *high, *count))
                    .collect();
                (x, placed, None)
            }
        };
        let heights = bars.iter().map(|bar| bar.2).chain([0.0]);
        let mut y = axis::range(heights, false, true);
        // No empty strip below bars that are all positive.
        if bars.iter().all(|bar| bar.2.is_nan() || bar.2 >= 0.0) {
            y.start = 0.0;
        }
        self.draw(x, y, &bars, names.map(Vec::as_slice))
    }

    fn draw(
        &self,
        x: std::ops::Range<f64>,
        y: std::ops::Range<f64>,
        bars: &[(f64, f64, f64)],
        names: Option<&[(String, f64)]>,
    ) -> Result<String, Error> {
        let mut text = String::new();
        {
            let size = (self.width.max(200), self.height.max(150));
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE).map_err(Error::drawing)?;
            let mut chart = ChartBuilder::on(&area);
            chart.margin(12).x_label_area_size(42).y_label_area_size(64);
            if !self.title.is_empty() {
                chart.caption(&self.title, ("sans-serif", 20, &INK));
            }
            let spans = (x.end - x.start, y.end - y.start);
            let mut chart = chart.build_cartesian_2d(x, y).map_err(Error::drawing)?;
            let mut mesh = chart.configure_mesh();
            let by_name = |place: &f64| name_at(names.unwrap_or_default(), *place);
            let by_place = |value: &f64| axis::tick(*value, spans.0);
            let by_value = |value: &f64| axis::tick(*value, spans.1);
            match names {
                // About one label per bar, or as many as there is room for.
                Some(names) => mesh
                    .x_labels((names.len() * 2).clamp(2, 40))
                    .x_label_formatter(&by_name),
                None => mesh.x_label_formatter(&by_place),
            };
            mesh.x_desc(&self.x_label)
                .y_desc(&self.y_label)
                .y_label_formatter(&by_value)
                .disable_x_mesh()
                .label_style(("sans-serif", 13, &INK))
                .axis_desc_style(("sans-serif", 15, &INK))
                .axis_style(INK)
                .bold_line_style(FAINT)
                .light_line_style(TRANSPARENT)
                .draw()
                .map_err(Error::drawing)?;
            let shown = bars.iter().filter(|bar| axis::shows(bar.2, false));
            let fill = colour::series(0).mix(0.85).filled();
            chart
                .draw_series(shown.map(|(low, high, height)| {
                    Rectangle::new([(*low, 0.0), (*high, *height)], fill)
                }))
                .map_err(Error::drawing)?;
            area.present().map_err(Error::drawing)?;
        }
        Ok(text)
    }
}

/// Returns the name of the bar centred at `place`; empty between bars.
fn name_at(names: &[(String, f64)], place: f64) -> String {
    if (place - place.round()).abs() > 1e-6 || place.round() < 0.0 {
        return String::new();
    }
    let name = names.get(place.round() as usize);
    name.map(|name| name.0.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns left edge, width and height of the coloured bars.
    fn bars(svg: &str) -> Vec<(i32, i32, i32)> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let number = |node: roxmltree::Node, name| node.attribute(name).unwrap().parse().unwrap();
        document
            .descendants()
            .filter(|node| node.attribute("fill") == Some("#0072B2"))
            .map(|node| {
                (
                    number(node, "x"),
                    number(node, "width"),
                    number(node, "height"),
                )
            })
            .collect()
    }

    #[test]
    fn heights_are_in_proportion_and_a_missing_one_leaves_its_place() {
        let chart = BarChart::new("t", [("a", 1.0), ("b & c", f64::NAN), ("d", 4.0)]);
        let svg = chart.svg().unwrap();
        let bars = bars(&svg);
        assert_eq!(bars.len(), 2);
        assert!((bars[1].2 - 4 * bars[0].2).abs() <= 4, "{bars:?}");
        assert!(bars[1].0 - bars[0].0 > 2 * bars[0].1, "{bars:?}");
        for name in ["\na\n", "\nb &amp; c\n", "\nd\n"] {
            assert!(svg.contains(name), "{name} in {svg}");
        }
        assert_eq!(svg, chart.svg().unwrap());
    }

    #[test]
    fn a_histogram_keeps_the_widths_of_its_bins() {
        let chart = BarChart::histogram("h", &[0.0, 1.0, 3.0], &[5.0, 5.0]).unwrap();
        let bars = bars(&chart.svg().unwrap());
        assert!((bars[1].1 - 2 * bars[0].1).abs() <= 2, "{bars:?}");
        let error = BarChart::histogram("h", &[0.0, 1.0], &[5.0, 5.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot draw a histogram: 2 counts need 3 edges, not 2"
        );
        assert!(BarChart::histogram("h", &[0.0, 0.0], &[5.0]).is_err());
        assert!(BarChart::histogram("h", &[0.0, f64::NAN], &[5.0]).is_err());
    }

    #[test]
    fn no_bars_are_a_chart_too() {
        let none: [(&str, f64); 0] = [];
        assert!(BarChart::new("t", none).svg().is_ok());
        assert!(
            BarChart::new("t", [("a", f64::MAX), ("b", -f64::MAX)])
                .svg()
                .is_ok()
        );
    }
}

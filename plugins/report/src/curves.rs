//! Charts of the page: curves and confusion matrices.

use std::fmt::Write;

use sconce_charts::{HeatMap, Line, LineChart};
use sconce_plugin_api::Result;

use crate::history::{Curve, History};
use crate::html::{escape, whole};

/// Number of line colours, which then repeat: the charts' are the style sheet's `s0` to `s6`.
const COLOURS: usize = 7;

/// A chart per metric with a line per phase, then the batches' losses and the learning rates.
pub(crate) fn all(history: &History, logarithmic: &[String]) -> Result<String> {
    let mut drawn = String::new();
    let mut names: Vec<&str> = Vec::new();
    for curve in &history.metrics {
        // The test has one value, which the table shows; a name with a slash is an entry of a
        // table.
        if curve.phase != "test" && !curve.is_of_table() && !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    for name in names {
        let of = |curve: &&Curve| curve.name == name && curve.phase != "test";
        let lines = history.metrics.iter().filter(of);
        let lines: Vec<Line> = lines.map(|curve| line(&curve.phase, curve)).collect();
        let is_logarithmic = logarithmic.iter().any(|known| known == name);
        draw_views(name, lines, is_logarithmic, &mut drawn)?;
    }
    if !history.losses.is_empty() {
        let lines = history.losses.iter().map(|curve| line("", curve)).collect();
        let is_logarithmic = logarithmic.iter().any(|known| known == "loss");
        draw_views("loss of batches", lines, is_logarithmic, &mut drawn)?;
    }
    if !history.rates.is_empty() {
        let is_one = history.rates.len() == 1;
        let lines = history.rates.iter();
        let lines = lines.map(|curve| line(if is_one { "" } else { &curve.name }, curve));
        let is_logarithmic = logarithmic.iter().any(|known| known == "learning_rate");
        draw_views("learning rate", lines.collect(), is_logarithmic, &mut drawn)?;
    }
    if drawn.is_empty() {
        return Ok(drawn);
    }
    Ok(format!(
        "<div class=\"charts\">\n{drawn}</div>\n{}",
        tables(history)?
    ))
}

/// Metrics that are tables, such as `activation/conv1/mean`, folded by table: a chart for each last
/// part of the names with a line for each middle part, or a single chart for names without a middle
/// part.
fn tables(history: &History) -> Result<String> {
    // Tables, their charts and the charts' lines, each in order of first appearance.
    let mut all: Named<Named<Vec<Line>>> = Vec::new();
    let curves = history.metrics.iter();
    for curve in curves.filter(|curve| curve.phase != "test" && curve.is_of_table()) {
        let (table, rest) = curve.name.split_once('/').unwrap_or((&curve.name, ""));
        let (row, column) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let charts = place(&mut all, table);
        let name = format!("{row} ({})", curve.phase);
        place(charts, column).push(line(&name, curve));
    }
    let mut text = String::new();
    for (table, charts) in all {
        let mut drawn = String::new();
        for (column, lines) in charts {
            let name = if column.is_empty() { table } else { column };
            draw(name, lines, &mut drawn)?;
        }
        writeln!(
            text,
            "<details><summary>{}</summary>\n<div class=\"charts\">\n{drawn}</div>\n</details>",
            escape(table)
        )?;
    }
    Ok(text)
}

/// Values by name, in insertion order.
type Named<'a, T> = Vec<(&'a str, T)>;

/// Returns the entry of a name, appending a default one if it is new.
fn place<'a, 'b, T: Default>(entries: &'b mut Named<'a, T>, name: &'a str) -> &'b mut T {
    let known = entries.iter().position(|(known, _)| *known == name);
    let index = known.unwrap_or_else(|| {
        entries.push((name, T::default()));
        entries.len() - 1
    });
    &mut entries[index].1
}

fn line(name: &str, curve: &Curve) -> Line {
    let points = curve.points.iter();
    Line::new(
        name,
        points.map(|(at, value)| (*at, value.unwrap_or(f64::NAN))),
    )
}

/// Draws a chart with what a reader may look at instead: most values or all, and on a logarithmic axis.
fn draw_views(
    name: &str,
    lines: Vec<Line>,
    is_logarithmic: bool,
    drawn: &mut String,
) -> Result<()> {
    let values = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.1)
    };
    let (least, greatest) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let spans_orders = least > 0.0 && greatest >= MOST_LINEAR * least;
    let mut chart = Chart::of(lines);
    if is_logarithmic {
        chart.chart.y_log = true;
        return figure(name, &chart.text()?, drawn);
    }
    let Some(most) = chart.chart.range_of_most() else {
        if spans_orders {
            let views = [
                ("linear", chart.svg()?),
                ("logarithmic", chart.logarithmic()?),
            ];
            return figure(name, &switch(&chart.keys, name, &views), drawn);
        }
        return figure(name, &chart.text()?, drawn);
    };
    let all = chart.svg()?;
    chart.chart.y_range = Some(most);
    let mut views = vec![("most values", chart.svg()?), ("all", all)];
    if spans_orders {
        views.push(("logarithmic", chart.logarithmic()?));
    }
    figure(name, &switch(&chart.keys, name, &views), drawn)
}

/// The ratio of the greatest to the least value from which on a logarithmic axis is offered.
const MOST_LINEAR: f64 = 10.0;

/// A chart's views, of which the style sheet shows the chosen one.
fn switch(keys: &str, name: &str, views: &[(&str, String)]) -> String {
    let group = fingerprint(name);
    let mut text = format!("{keys}<div class=\"views\">\n");
    for (index, (view, _)) in views.iter().enumerate() {
        let checked = if index == 0 { " checked" } else { "" };
        let _ = writeln!(
            text,
            "<input type=\"radio\" name=\"{group}\" id=\"{group}-{index}\"{checked}>\
             <label for=\"{group}-{index}\">{view}</label>"
        );
    }
    for (_, svg) in views {
        let _ = writeln!(text, "<div>{svg}</div>");
    }
    text.push_str("</div>");
    text
}

/// A name for a chart's switch: letters and digits of the chart's own, which distinguish it on the page.
fn fingerprint(name: &str) -> String {
    let bytes = name.bytes().map(|byte| format!("{byte:02x}"));
    format!("view-{}", bytes.collect::<String>())
}

fn draw(name: &str, lines: Vec<Line>, drawn: &mut String) -> Result<()> {
    figure(name, &Chart::of(lines).text()?, drawn)
}

/// A chart and the names of its lines, which are put above it, where they hide no line.
struct Chart {
    chart: LineChart,
    keys: String,
}

impl Chart {
    fn of(mut lines: Vec<Line>) -> Chart {
        let mut keys = String::new();
        for (index, line) in lines.iter_mut().enumerate() {
            let name = std::mem::take(&mut line.name);
            if !name.is_empty() {
                let colour = index % COLOURS;
                let name = escape(&name);
                let _ = write!(keys, "<li><span class=\"s{colour}\"></span>{name}</li>");
            }
        }
        if !keys.is_empty() {
            keys = format!("<ul class=\"legend\">{keys}</ul>\n");
        }
        let mut chart = LineChart::new("");
        // Small, so that the text stays legible on a phone.
        (chart.width, chart.height) = (520, 300);
        "epoch".clone_into(&mut chart.x_label);
        chart.lines = lines;
        Chart { chart, keys }
    }

    fn svg(&self) -> Result<String> {
        Ok(self.chart.svg()?)
    }

    fn logarithmic(&mut self) -> Result<String> {
        self.chart.y_log = true;
        self.svg()
    }

    fn text(&self) -> Result<String> {
        Ok(format!("{}{}", self.keys, self.svg()?))
    }
}

fn figure(name: &str, svg: &str, drawn: &mut String) -> Result<()> {
    let name = escape(name);
    writeln!(
        drawn,
        "<figure aria-label=\"{name}\">\n<figcaption>{name}</figcaption>\n{svg}\n</figure>"
    )?;
    Ok(())
}

/// The last completed confusion matrices.
pub(crate) fn matrices(history: &History, classes: &[String]) -> Result<String> {
    let mut drawn = String::new();
    for (phase, matrix) in &history.matrices {
        let name = |class: usize| {
            let known = classes.get(class).cloned();
            known.unwrap_or_else(|| class.to_string())
        };
        let names: Vec<String> = (0..matrix.classes).map(name).collect();
        let map = HeatMap {
            title: String::new(),
            x_label: "predicted".to_owned(),
            y_label: "true".to_owned(),
            rows: names.clone(),
            columns: names,
            values: matrix.counts.iter().map(|count| *count as f64).collect(),
            range: None,
        };
        let total = matrix.total();
        let caption = format!(
            "{phase}: {} of {} right, {:.2} %",
            whole(matrix.right()),
            whole(total),
            100.0 * matrix.right() as f64 / total.max(1) as f64
        );
        figure(&caption, &map.svg()?, &mut drawn)?;
        let mistakes = matrix.mistakes().into_iter();
        let mistakes: Vec<String> = mistakes
            .map(|(target, found, count)| {
                let (target, found) = (escape(&name(target)), escape(&name(found)));
                format!("{target} taken for {found}, {}", whole(count))
            })
            .collect();
        if !mistakes.is_empty() {
            writeln!(
                drawn,
                "<p>Most frequent mistakes in {}: {}.</p>",
                escape(phase),
                mistakes.join("; ")
            )?;
        }
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_colours_of_their_lines() {
        let style = include_str!("page.css");
        for index in 0..COLOURS {
            let mut chart = LineChart::new("");
            chart.lines = vec![Line::default(); index];
            let points = [(1.0, 1.0), (2.0, 2.0)];
            chart.lines.push(Line::new("", points));
            let svg = chart.svg().expect("a drawing").to_lowercase();
            let (_, behind) = style
                .split_once(&format!(".s{index} {{ background: "))
                .expect("a colour");
            let (colour, _) = behind.split_once(';').expect("its end");
            assert!(
                svg.contains(&colour.to_lowercase()),
                "{index}: {colour}\n{svg}"
            );
        }
    }
}

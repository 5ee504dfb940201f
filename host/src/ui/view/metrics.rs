//! The metrics by epoch, with the best values marked.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use sconce_plugin_api::Phase;

use super::{Palette, Picture, words};
use crate::ui::state::{Row, ViewState};

/// Width of the epoch column, and minimum width of a metric column.
const EPOCH: usize = 8;
const LEAST: usize = 11;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let palette = picture.palette;
    let block = super::block(Line::from(" metrics  * best "));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let columns = columns(picture.state, usize::from(inner.width));
    if columns.is_empty() {
        let words = " none before the first epoch's end";
        frame.render_widget(Line::styled(words, Palette::label()), inner);
        return;
    }
    let mut lines = vec![header(&columns).style(Palette::label())];
    // The last two lines show the best values.
    let room = usize::from(inner.height).saturating_sub(3);
    let skipped = picture.state.rows.len().saturating_sub(room);
    for row in picture.state.rows.iter().skip(skipped) {
        let cells = columns.iter().map(|column| {
            let value = row.value(column.phase, &column.name);
            let best = picture.state.best_of(column.phase, &column.name);
            let is_best = value.is_some() && best.is_some_and(|b| b.iteration == row.iteration);
            let text = value.map_or_else(String::new, words::value);
            let mark = if is_best { "*" } else { " " };
            let text = format!("{text:>width$}{mark}", width = column.width - 1);
            if is_best {
                Span::styled(text, palette.best())
            } else {
                Span::raw(text)
            }
        });
        lines.push(line_of(&words::epochs(row.epoch), cells));
    }
    let of_best = |text: &dyn Fn(&MetricColumn) -> Option<String>| -> Vec<Span<'static>> {
        let cell = |column: &MetricColumn| {
            let text = text(column).unwrap_or_default();
            Span::raw(format!("{text:>width$} ", width = column.width - 1))
        };
        columns.iter().map(cell).collect()
    };
    let best = |column: &MetricColumn| {
        let best = picture.state.best_of(column.phase, &column.name)?;
        Some(words::value(best.value))
    };
    let at = |column: &MetricColumn| {
        let best = picture.state.best_of(column.phase, &column.name)?;
        let batches = picture.state.train_batches.max(1);
        let epoch = best.iteration as f64 / batches as f64;
        Some(format!("at {}", words::epochs(epoch)))
    };
    lines.push(line_of("best", of_best(&best).into_iter()).style(Palette::strong()));
    lines.push(line_of("", of_best(&at).into_iter()).style(Palette::label()));
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The column of a phase's metric.
struct MetricColumn {
    phase: Phase,
    name: String,
    header: String,
    width: usize,
}

/// As many columns as fit, the validation's first.
fn columns(state: &ViewState, width: usize) -> Vec<MetricColumn> {
    let mut columns: Vec<MetricColumn> = Vec::new();
    let mut used = EPOCH;
    for phase in [Phase::Val, Phase::Train] {
        // The newest row with values of a phase has all of its metrics.
        let mut rows = state.rows.iter().rev();
        let Some(row) = rows.find(|row| row.values.iter().any(|(known, _, _)| *known == phase))
        else {
            continue;
        };
        for (_, name, _) in row.values.iter().filter(|(known, _, _)| *known == phase) {
            let header = format!("{} {name}", phase.name());
            let width_of = (header.chars().count() + 3).clamp(LEAST, 20);
            if used + width_of > width {
                return columns;
            }
            used += width_of;
            columns.push(MetricColumn {
                phase,
                name: name.clone(),
                header: words::fitting(&header, width_of - 3),
                width: width_of,
            });
        }
    }
    columns
}

fn header(columns: &[MetricColumn]) -> Line<'static> {
    let cells = columns.iter().map(|column| {
        Span::raw(format!(
            "{:>width$} ",
            column.header,
            width = column.width - 1
        ))
    });
    line_of("epoch", cells)
}

fn line_of(first: &str, cells: impl Iterator<Item = Span<'static>>) -> Line<'static> {
    let first = Span::raw(format!("{first:>width$} ", width = EPOCH - 2));
    Line::from(std::iter::once(first).chain(cells).collect::<Vec<_>>())
}

impl Row {
    fn value(&self, phase: Phase, name: &str) -> Option<f64> {
        let mut values = self.values.iter();
        let found = values.find(|(known, of, _)| *known == phase && of == name);
        found.map(|(_, _, value)| *value)
    }
}

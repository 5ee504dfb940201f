//! Draws the view from a [`Picture`].

mod curves;
mod footer;
mod header;
mod log;
mod metrics;
mod style;
#[cfg(test)]
mod tests;
mod times;
mod words;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use sconce_plugin_api::Phase;

use super::keys::{Pane, ViewChoices};
use super::lines::Lines;
use super::state::ViewState;
use crate::printable;
use crate::run::RemoteRequest;

pub(super) use style::Palette;

/// Minimum columns and lines; a smaller terminal shows nothing useful.
pub(super) const LEAST: (u16, u16) = (40, 12);

/// Columns and lines from which all panes fit at once.
const LARGE: (u16, u16) = (100, 30);

/// Everything needed for drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture<'a> {
    pub(super) state: &'a ViewState,
    pub(super) choice: &'a ViewChoices,
    pub(super) lines: &'a Lines,
    /// Pending requests to the run.
    pub(super) waiting: &'a [RemoteRequest],
    /// Seconds since the run last reported its progress.
    pub(super) since: f64,
    pub(super) palette: Palette,
}

/// Frame of a pane: a line above it, with a title.
fn block(title: Line<'_>) -> Block<'_> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Palette::label())
        .title(title)
}

/// Draws the picture; returns the number of log lines that fit.
pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture<'_>) -> u16 {
    let log_height = draw_panes(frame, picture);
    tame(frame.buffer_mut());
    log_height
}

/// Removes control characters, since names and texts come from outside.
fn tame(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().contains(printable::breaks_line) {
            let shown = printable::stripped(cell.symbol());
            cell.set_symbol(if shown.is_empty() { " " } else { &shown });
        }
    }
}

fn draw_panes(frame: &mut Frame<'_>, picture: &Picture<'_>) -> u16 {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let words = format!(
            "{} columns, {} lines: too small for the view; the run continues",
            area.width, area.height
        );
        frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
        return 0;
    }
    let has_status = !picture.state.status.is_empty();
    let [header, body, status, footer] = Layout::vertical([
        Constraint::Length(header::HEIGHT),
        Constraint::Fill(1),
        Constraint::Length(u16::from(has_status)),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(frame, header, picture);
    let is_large = area.width >= LARGE.0 && area.height >= LARGE.1;
    let log = if is_large {
        draw_all(frame, body, picture)
    } else {
        draw_one(frame, body, picture)
    };
    let line = printable::stripped(&picture.state.status);
    frame.render_widget(format!(" {line}"), status);
    footer::draw(frame, footer, picture, !is_large);
    if picture.choice.shows_help {
        footer::draw_help(frame, area);
    }
    log
}

/// Draws all panes.
fn draw_all(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) -> u16 {
    let [top, bottom] =
        Layout::vertical([Constraint::Percentage(55), Constraint::Fill(1)]).areas(area);
    let [curves, times] =
        Layout::horizontal([Constraint::Percentage(56), Constraint::Fill(1)]).areas(top);
    let [metrics, log] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Fill(1)]).areas(bottom);
    curves::draw(frame, curves, picture);
    times::draw(frame, times, picture);
    metrics::draw(frame, metrics, picture);
    log::draw(frame, log, picture);
    log.height.saturating_sub(1)
}

/// Draws the selected pane and, if there is room, the last lines of the log.
fn draw_one(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) -> u16 {
    let pane = picture.choice.pane;
    let below = match pane {
        Pane::Log => 0,
        _ if area.height >= 16 => 6,
        _ => 0,
    };
    let [tabs, main, log] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(below),
    ])
    .areas(area);
    let mut spans = Vec::new();
    for (place, other) in Pane::ALL.into_iter().enumerate() {
        let style = if other == pane {
            Palette::strong().reversed()
        } else {
            Palette::label()
        };
        spans.push(Span::raw(" "));
        spans.push(Span::styled(
            format!(" {} {} ", place + 1, other.name()),
            style,
        ));
    }
    frame.render_widget(Line::from(spans), tabs);
    match pane {
        Pane::Curves => curves::draw(frame, main, picture),
        Pane::Metrics => metrics::draw(frame, main, picture),
        Pane::Times => times::draw(frame, main, picture),
        Pane::Log => {
            log::draw(frame, main, picture);
            return main.height.saturating_sub(1);
        }
    }
    if below > 0 {
        log::draw(frame, log, picture);
    }
    below.saturating_sub(1)
}

/// Name of a phase's passes.
fn of_phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Val => "validation",
        Phase::Test => "test",
        other => other.name(),
    }
}

//! The bottom line: the keys, or a question.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::{Palette, Picture};
use crate::run::RemoteRequest;

/// Keys with their actions, most important first.
const KEYS: [(&str, &str); 6] = [
    ("q", "stop"),
    ("c", "checkpoint"),
    ("v", "validate"),
    ("p", "pause"),
    ("?", "help"),
    ("↑↓", "log"),
];

/// All keys.
const HELP: [(&str, &str); 11] = [
    ("q, s", "end the training after this iteration (asks first)"),
    ("Ctrl-C", "save a checkpoint and end; twice: end at once"),
    ("c", "save the checkpoint `by-key` now"),
    ("v", "validate now"),
    ("r", "load libraries of hooks that have changed"),
    ("p", "pause and resume"),
    ("1 to 4, tab", "on small terminals: which pane"),
    ("↑ ↓ PgUp PgDn", "scroll the log"),
    ("Home, End", "to the log's first and newest lines"),
    ("Ctrl-L", "redraw the screen"),
    ("?", "this help; any key ends it"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>, has_panes: bool) {
    let palette = picture.palette;
    if picture.choice.asks_to_stop {
        let line = " End the training? The test runs, the weights are written.   y yes   n no";
        frame.render_widget(Line::styled(line, palette.warning()), area);
        return;
    }
    let mut spans = Vec::new();
    let panes = [("tab", "pane")];
    let keys = KEYS.iter().chain(panes.iter().filter(|_| has_panes));
    for (key, what) in keys {
        spans.push(Span::styled(format!(" {key}"), Palette::strong()));
        spans.push(Span::styled(format!(" {what} "), Palette::label()));
    }
    let waiting = waiting(picture.waiting);
    let width = waiting.chars().count() as u16;
    let [keys_area, waiting_area] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    frame.render_widget(Line::from(spans), keys_area);
    frame.render_widget(Line::styled(waiting, palette.warning()), waiting_area);
}

/// The pending requests as text.
fn waiting(wishes: &[RemoteRequest]) -> String {
    let words: Vec<&str> = wishes
        .iter()
        .filter_map(|wish| match wish {
            RemoteRequest::Checkpoint => Some("checkpoint"),
            RemoteRequest::Validate => Some("validation"),
            RemoteRequest::Reload => Some("reload"),
            RemoteRequest::Pause => Some("pause"),
            RemoteRequest::Stop => Some("stop"),
            RemoteRequest::GoOn => None,
        })
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" next: {} ", words.join(", "))
}

/// Draws the help in the middle of the screen.
pub(super) fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(key, what)| {
            Line::from(vec![
                Span::styled(format!(" {key:>13}  "), Palette::strong()),
                Span::raw(*what),
            ])
        })
        .collect();
    let [column] = Layout::horizontal([Constraint::Length(70)])
        .flex(Flex::Center)
        .areas(area);
    let [place] = Layout::vertical([Constraint::Length(HELP.len() as u16 + 2)])
        .flex(Flex::Center)
        .areas(column);
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

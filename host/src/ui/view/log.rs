//! The lines of the log, the newest at the bottom.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::{Palette, Picture, words};
use crate::thousands::grouped;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let log = picture.lines;
    let end = picture.choice.log_end.unwrap_or(log.end());
    let title = match picture.choice.log_end {
        None => " log ".to_owned(),
        Some(end) => format!(
            " log  to line {} of {}, End: newest ",
            grouped(end),
            grouped(log.end())
        ),
    };
    let block = super::block(Line::from(title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let height = usize::from(inner.height);
    let width = usize::from(inner.width).saturating_sub(2);
    // From the bottom up, until the pane is full.
    let mut rows: Vec<Line<'_>> = Vec::new();
    for line in log.before(end) {
        if rows.len() >= height {
            break;
        }
        let style = match line {
            line if line.starts_with("warning:") => picture.palette.warning(),
            line if line.starts_with("error:") => picture.palette.error(),
            line if line.starts_with("debug:") => Palette::label(),
            _ => ratatui::style::Style::new(),
        };
        let wrapped = wrapped(line, width);
        let lines = wrapped.into_iter().rev();
        rows.extend(lines.map(|row| Line::styled(format!(" {row}"), style)));
    }
    rows.truncate(height);
    rows.reverse();
    frame.render_widget(Paragraph::new(rows), inner);
}

/// Breaks a line into rows of at most `width` columns, between words if possible.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    const INDENT: &str = "    ";
    if width <= 2 * INDENT.len() || line.chars().count() <= width {
        return vec![words::fitting(line, width.max(1))];
    }
    let mut rows = Vec::new();
    let mut rest: Vec<char> = line.chars().collect();
    while rest.len() > width {
        let space = (width / 2..=width)
            .rev()
            .find(|at| rest.get(*at) == Some(&' '));
        let cut = space.unwrap_or(width);
        let tail = rest.split_off(cut);
        rows.push(rest.iter().collect());
        let tail = tail.into_iter().skip_while(|c| *c == ' ');
        rest = INDENT.chars().chain(tail).collect();
    }
    rows.push(rest.into_iter().collect());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrapped("short", 20), ["short"]);
        assert_eq!(
            wrapped("one two three four five", 12),
            ["one two", "    three", "    four", "    five"]
        );
        assert_eq!(wrapped("aaaaaaaaaaaaaaa", 10), ["aaaaaaaaaa", "    aaaaa"]);
        assert_eq!(wrapped("", 20), [""]);
    }
}

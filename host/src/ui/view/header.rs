//! The top: name of the run, progress, and speed.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use sconce_plugin_api::Phase;

use super::{Palette, Picture, words};
use crate::run::{Now, RemoteRequest};
use crate::thousands::grouped;
use crate::ui::state::part;

/// Height in lines.
pub(super) const HEIGHT: u16 = 3;

/// Width below which there is no text to the right of the bars.
const ROOMY: u16 = 60;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let [title, pass, run] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
    draw_title(frame, title, picture);
    let Some(now) = picture.state.now else { return };
    let pace = picture.state.pace();
    draw_bar(
        frame,
        pass,
        picture,
        &Bar {
            label: match now.phase {
                Phase::Train => "epoch",
                Phase::Val => "valid.",
                _ => "test",
            },
            part: part(now.batch, now.batches),
            amount: format!("{}/{} batches", grouped(now.batch), grouped(now.batches)),
            aside: pace.map_or_else(String::new, |(_, samples)| {
                format!("{} samples/s", words::pace(samples))
            }),
        },
    );
    let total = now.epochs.saturating_mul(picture.state.train_batches);
    draw_bar(
        frame,
        run,
        picture,
        &Bar {
            label: "run",
            part: picture.state.done(),
            amount: format!("{}/{} iterations", grouped(now.iteration), grouped(total)),
            aside: format!("learning rate {}", rate(now.learning_rate)),
        },
    );
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let mut left = vec![
        Span::raw(" "),
        Span::styled(picture.state.name.as_str(), Palette::strong()),
    ];
    let mut right = String::new();
    if let Some(now) = picture.state.now {
        let epoch = match now.phase {
            Phase::Train => now.epoch + 1,
            // The epoch to which the finished iterations belong.
            _ => now.iteration.div_ceil(picture.state.train_batches.max(1)),
        };
        let epoch = epoch.clamp(1, now.epochs.max(1));
        left.push(Span::raw(format!("   epoch {epoch}/{}   ", now.epochs)));
        left.push(doing(picture, &now));
        right = clocks(picture, &now, area.width >= ROOMY);
    } else {
        left.push(Span::styled("   beginning", Palette::label()));
    }
    let width = right.chars().count() as u16;
    let [words_area, clock_area] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    frame.render_widget(Line::from(left), words_area);
    frame.render_widget(Line::from(right), clock_area);
}

/// The current activity of the run.
fn doing(picture: &Picture<'_>, now: &Now) -> Span<'static> {
    let palette = picture.palette;
    let is_waiting = |wish| picture.waiting.contains(&wish);
    if is_waiting(RemoteRequest::Stop) {
        return Span::styled("stopping", palette.warning());
    }
    if picture.choice.is_paused {
        let word = if is_waiting(RemoteRequest::Pause) {
            "pausing"
        } else {
            "paused: p resumes"
        };
        return Span::styled(word, palette.warning());
    }
    match now.phase {
        Phase::Train => Span::raw("training"),
        Phase::Val => Span::raw("validating"),
        Phase::Test => Span::raw("testing"),
        other => Span::raw(other.name()),
    }
}

/// Elapsed and remaining time.
fn clocks(picture: &Picture<'_>, now: &Now, is_roomy: bool) -> String {
    let elapsed = words::clock(now.elapsed + picture.since);
    let Some(remaining) = now.remaining.filter(|_| is_roomy) else {
        return format!("{elapsed} ");
    };
    let since = if picture.choice.is_paused {
        0.0
    } else {
        picture.since
    };
    let remaining = words::clock((remaining - since).max(0.0));
    format!("{elapsed}   {remaining} to go ")
}

/// A learning rate, written with as few digits as possible.
fn rate(rate: f64) -> String {
    if rate != 0.0 && rate.abs() < 1e-3 {
        return format!("{rate:.2e}");
    }
    let text = format!("{rate:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A progress bar with text.
struct Bar {
    label: &'static str,
    part: f64,
    amount: String,
    aside: String,
}

fn draw_bar(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>, bar: &Bar) {
    let palette = picture.palette;
    let is_roomy = area.width >= ROOMY;
    let [label, line, percent, amount, aside] = Layout::horizontal([
        Constraint::Length(8),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(if is_roomy { 26 } else { 0 }),
        Constraint::Length(if is_roomy { 24 } else { 0 }),
    ])
    .areas(area);
    frame.render_widget(
        Span::styled(format!(" {}", bar.label), Palette::label()),
        label,
    );
    let width = usize::from(line.width);
    let done = ((bar.part * width as f64).round() as usize).min(width);
    frame.render_widget(
        Line::from(vec![
            Span::styled("━".repeat(done), palette.train()),
            Span::styled("─".repeat(width - done), Palette::label()),
        ]),
        line,
    );
    // 100 % only when complete.
    let hundredths = (bar.part * 100.0).floor();
    frame.render_widget(
        Line::from(format!("{hundredths:.0} %")).right_aligned(),
        percent,
    );
    frame.render_widget(format!("  {}", bar.amount), amount);
    frame.render_widget(Line::from(format!("{} ", bar.aside)).right_aligned(), aside);
}

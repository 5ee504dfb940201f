//! How the training's time is spent.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use sconce_plugin_api::Phase;

use super::{Palette, Picture, words};
use crate::run::Profile;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, picture: &Picture<'_>) {
    let palette = picture.palette;
    let training = picture.state.times_of(Phase::Train).unwrap_or_default();
    let title = format!(" time  {} in training ", words::time(training.total));
    let block = super::block(Line::from(title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let longest = training.hooks.iter().map(|hook| hook.name.chars().count());
    let most = usize::from(inner.width) / 3;
    let names = (longest.max().unwrap_or(0) + 5).clamp(10, most.max(10));
    let mut lines: Vec<Line<'_>> = parts(&training)
        .into_iter()
        .map(|part| {
            let share = part.seconds / training.total.max(f64::MIN_POSITIVE);
            let name = words::fitting(&part.name, names);
            let mut spans = vec![
                Span::raw(format!(" {name:names$}")),
                Span::raw(format!("{:>9}", words::time(part.seconds))),
                Span::raw(format!("{:>8} ", format!("{:.1} %", 100.0 * share))),
            ];
            let each = part
                .each
                .map_or_else(String::new, |each| format!("{:>9} each", words::time(each)));
            let room = usize::from(inner.width).saturating_sub(names + 20);
            let length = (share.clamp(0.0, 1.0) * room as f64).round() as usize;
            spans.push(Span::styled("━".repeat(length), palette.train()));
            // With a bar this long, the time per call is of no interest.
            if room - length >= EACH {
                let each = format!("{each:>width$}", width = room - length);
                spans.push(Span::styled(each, Palette::label()));
            }
            Line::from(spans)
        })
        .collect();
    let others: Vec<String> = [Phase::Val, Phase::Test]
        .into_iter()
        .filter_map(|phase| {
            let times = picture.state.times_of(phase)?;
            Some(format!(
                "{} {} in {} {}",
                words::time(times.total),
                super::of_phase(phase),
                times.passes,
                if times.passes == 1 { "pass" } else { "passes" }
            ))
        })
        .collect();
    if !others.is_empty() {
        let others = format!(" {}", others.join(", "));
        lines.push(Line::styled(others, Palette::label()));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Width of the text for a hook's time per call.
const EACH: usize = 15;

/// A part of the training's time.
struct TimeSegment {
    name: String,
    seconds: f64,
    /// Mean time of one call of a hook.
    each: Option<f64>,
}

/// The host's parts first, then the hooks, slowest first.
fn parts(times: &Profile) -> Vec<TimeSegment> {
    let of_host = [
        ("data", times.data),
        ("forward", times.forward),
        ("loss", times.loss),
        ("backward", times.backward),
        ("update", times.update),
    ];
    let mut parts: Vec<TimeSegment> = of_host
        .into_iter()
        .map(|(name, seconds)| TimeSegment {
            name: name.to_owned(),
            seconds,
            each: None,
        })
        .collect();
    let mut hooks: Vec<TimeSegment> = times
        .hooks
        .iter()
        .map(|hook| TimeSegment {
            name: format!("hook {}", hook.name),
            seconds: hook.seconds,
            each: (hook.calls > 0).then(|| hook.seconds / hook.calls as f64),
        })
        .collect();
    if times.waiting > 0.0 {
        parts.push(TimeSegment {
            name: "GPU".to_owned(),
            seconds: times.waiting,
            each: None,
        });
    }
    hooks.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    parts.extend(hooks);
    let known: f64 = parts.iter().map(|part| part.seconds).sum();
    parts.push(TimeSegment {
        name: "other".to_owned(),
        seconds: (times.total - known).max(0.0),
        each: None,
    });
    parts
}

//! Contents of the screen in various states.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use crate::ui::state::tests::{at, in_the_third_epoch};

/// Differences of the picture from the default.
#[derive(Default)]
struct Changed {
    choice: ViewChoices,
    waiting: Vec<RemoteRequest>,
    log: Vec<String>,
    is_plain: bool,
}

/// Draws a screen of this size.
fn screen(columns: u16, lines: u16, state: &ViewState, changed: &Changed) -> Terminal<TestBackend> {
    let mut log = Lines::default();
    for line in &changed.log {
        log.push(format!("{line}\n").as_bytes());
    }
    let picture = Picture {
        state,
        choice: &changed.choice,
        lines: &log,
        waiting: &changed.waiting,
        since: 0.5,
        palette: if changed.is_plain {
            Palette::Plain
        } else {
            Palette::Colours
        },
    };
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a screen");
    terminal
        .draw(|frame| _ = draw(frame, &picture))
        .expect("drawn");
    terminal
}

/// The lines of the screen, without trailing blanks.
fn lines(columns: u16, lines: u16, state: &ViewState, changed: &Changed) -> Vec<String> {
    let terminal = screen(columns, lines, state, changed);
    let buffer = terminal.backend().buffer();
    let width = usize::from(columns);
    let cells = buffer.content().chunks(width);
    cells
        .map(|cells| {
            let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

fn expect(lines: &[String], texts: &[&str]) {
    let all = lines.join("\n");
    for text in texts {
        assert!(all.contains(text), "`{text}` is missing:\n{all}");
    }
}

#[test]
fn a_usual_terminal_shows_one_pane_and_the_log() {
    let state = in_the_third_epoch();
    let log = vec![
        "epoch 1: loss 0.5".to_owned(),
        "warning: nan: beware".to_owned(),
    ];
    let mut changed = Changed {
        log,
        ..Changed::default()
    };
    let shown = lines(80, 24, &state, &changed);
    assert_eq!(
        shown[0],
        format!(
            " digits   epoch 3/4   training{:26}0:00:06   0:00:03 to go",
            ""
        )
    );
    expect(
        &shown,
        &[
            " epoch  ━",
            "  50 %  5/10 batches",
            "256 samples/s",
            "  62 %  25/40 iterations",
            "learning rate 0.001",
            " loss  ━ training ",
            "• validation 0.2500",
            " 1 curves ",
            "epoch 1: loss 0.5",
            "warning: nan: beware",
            " q stop  c checkpoint  v validate  p pause  ? help  ↑↓ log  tab pane",
        ],
    );
    changed.choice.pane = Pane::Metrics;
    let shown = lines(80, 24, &state, &changed);
    expect(
        &shown,
        &["epoch   val loss   val accuracy   train loss   train accuracy"],
    );
    for row in [
        "1 0.5000 0.7500* 0.5000 0.7500*",
        "2 0.2500* 0.7000 0.2500* 0.7000",
        "best 0.2500 0.7500 0.2500 0.7500",
        "at 2 at 1 at 2 at 1",
    ] {
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            shown.iter().any(|line| words(line) == row),
            "{row}\n{}",
            shown.join("\n")
        );
    }
    changed.choice.pane = Pane::Times;
    let shown = lines(80, 24, &state, &changed);
    expect(
        &shown,
        &[
            " time  6.0 s in training ",
            " data ",
            "300.0 ms",
            "   5.0 % ━",
            "hook console",
            "60.0 ms   1.0 %",
            "1.7 ms each",
            " other ",
            "4.0 s validation in 2 passes",
        ],
    );
    changed.choice.pane = Pane::Log;
    expect(&lines(80, 24, &state, &changed), &["warning: nan: beware"]);
}

#[test]
fn a_large_terminal_shows_all_panes() {
    let state = in_the_third_epoch();
    let changed = Changed {
        log: (0..50).map(|index| format!("line {index}")).collect(),
        ..Changed::default()
    };
    for size in [(120, 40), (200, 50)] {
        let shown = lines(size.0, size.1, &state, &changed);
        expect(
            &shown,
            &[
                " loss  ━",
                " time  ",
                " metrics ",
                " log ",
                "line 49",
                "train loss",
                "1.0000",
            ],
        );
        assert!(!shown.join("\n").contains("tab pane"));
    }
}

#[test]
fn a_tiny_terminal_says_so() {
    let state = in_the_third_epoch();
    let shown = lines(30, 5, &state, &Changed::default());
    expect(&shown, &["too small", "continues"]);
    // The smallest size shows everything important.
    let shown = lines(40, 12, &state, &Changed::default());
    expect(&shown, &["digits", "50 %", " 1 curves ", " q stop "]);
    assert_eq!(lines(1, 1, &state, &Changed::default()), ["1"]);
    for (columns, height) in [(41, 12), (59, 13), (100, 29), (99, 30)] {
        let shown = lines(columns, height, &state, &Changed::default());
        expect(&shown, &["digits", "50 %", " 1 curves ", " q stop "]);
    }
    // There is room for all panes at once.
    for (columns, height) in [(100, 30), (300, 100)] {
        let shown = lines(columns, height, &state, &Changed::default());
        expect(&shown, &[" loss  ━", " time  ", " metrics ", " log "]);
        assert!(!shown.join("\n").contains(" 1 curves "));
    }
}

#[test]
fn a_run_that_has_not_begun_is_drawn_too() {
    let mut state = ViewState::default();
    "digits".clone_into(&mut state.name);
    for (columns, height) in [(80, 24), (120, 40)] {
        let shown = lines(columns, height, &state, &Changed::default());
        expect(&shown, &["digits   beginning", " loss "]);
    }
}

#[test]
fn questions_wishes_pauses_and_help_are_shown() {
    let state = in_the_third_epoch();
    let mut changed = Changed::default();
    changed.choice.asks_to_stop = true;
    let shown = lines(80, 24, &state, &changed);
    expect(
        &shown,
        &["End the training? The test runs, the weights are written.   y yes   n no"],
    );
    changed.choice = ViewChoices::default();
    changed.waiting = vec![RemoteRequest::Checkpoint, RemoteRequest::Validate];
    let shown = lines(120, 40, &state, &changed);
    expect(&shown, &["next: checkpoint, validation"]);
    changed.choice.is_paused = true;
    expect(&lines(80, 24, &state, &changed), &["paused: p resumes"]);
    changed.waiting = vec![RemoteRequest::Pause];
    expect(&lines(80, 24, &state, &changed), &["pausing"]);
    changed.choice.shows_help = true;
    expect(
        &lines(80, 24, &state, &changed),
        &["keys", "Ctrl-C", "PgUp PgDn"],
    );
    expect(&lines(40, 12, &state, &changed), &["keys"]);
}

#[test]
fn a_hooks_status_has_its_own_line() {
    let mut state = in_the_third_epoch();
    state.status = "epoch 3 ███░░ 50 %\x1b[2J".to_owned();
    let shown = lines(80, 24, &state, &Changed::default());
    assert_eq!(shown[22], " epoch 3 ███░░ 50 %[2J");
}

#[test]
fn a_validation_has_its_own_progress() {
    let mut state = in_the_third_epoch();
    state.sees(&crate::run::Now {
        batch: 1,
        ..at(Phase::Val, 25)
    });
    expect(
        &lines(80, 24, &state, &Changed::default()),
        &["epoch 3/4   validating", " valid. ", "  33 %  1/3 batches"],
    );
}

#[test]
fn no_colour_is_used_where_none_is_wanted() {
    let state = in_the_third_epoch();
    let colours = |changed: &Changed| {
        let terminal = screen(120, 40, &state, changed);
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(&Changed::default()) > 0);
    let plain = Changed {
        is_plain: true,
        log: vec!["warning: a: b".to_owned(), "error: c".to_owned()],
        waiting: vec![RemoteRequest::Stop],
        ..Changed::default()
    };
    assert_eq!(colours(&plain), 0);
    let shown = lines(120, 40, &state, &plain);
    expect(&shown, &["stopping", "━ training"]);
}

#[test]
fn the_log_is_scrolled() {
    let state = in_the_third_epoch();
    let mut changed = Changed {
        log: (0..50).map(|index| format!("line {index}.")).collect(),
        ..Changed::default()
    };
    changed.choice.log_end = Some(20);
    let shown = lines(80, 24, &state, &changed);
    expect(&shown, &["to line 20 of 50", "line 19."]);
    assert!(!shown.join("\n").contains("line 20."));
}

#[test]
fn no_text_from_outside_steers_the_terminal() {
    let mut state = in_the_third_epoch();
    state.name = "run\x1b[2J\u{9b}1m\u{202e}x".to_owned();
    state.status = "bar\r\n\u{2066}\x07".to_owned();
    state
        .rows
        .push_back(std::sync::Arc::new(crate::ui::state::Row {
            iteration: 1_000_000,
            epoch: 9.0,
            values: vec![(Phase::Val, "met\u{202e}ric".to_owned(), 1.0)],
        }));
    let log = vec!["bad: \u{202e}text\u{200f}".to_owned()];
    let changed = Changed {
        log,
        ..Changed::default()
    };
    for size in [(120, 40), (60, 20)] {
        let drawn = lines(size.0, size.1, &state, &changed).concat();
        assert_eq!(drawn.find(crate::printable::breaks_line), None, "{drawn:?}");
        assert!(drawn.contains("run[2J"), "{drawn}");
    }
}

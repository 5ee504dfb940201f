//! `progress`: bars on a terminal, plain lines elsewhere.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

use super::{PLUGINS, refused, run};

/// What a run writes to standard error that is not a terminal, of the hook's lines alone.
fn plain(config: &Value) -> Vec<String> {
    let (_, finished) = run("progress", config);
    let finished = finished.expect(0, &[]);
    let lines = finished.stderr.lines();
    lines
        .filter(|line| line.contains("  loss ") || line.contains("  accuracy "))
        .filter_map(|line| line.strip_prefix("progress: "))
        .filter(|line| line.starts_with("epoch ") || line.starts_with("test "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn plain_lines_stand_where_there_is_no_terminal() {
    let lines = plain(&json!({}));
    let begins = [
        "epoch 1/2 train 3/3  loss 2.",
        "epoch 1/2 val 2/2  loss 2.",
        "epoch 2/2 train 3/3  loss 2.",
        "epoch 2/2 val 2/2  loss 2.",
        "test 1/1  loss 2.",
    ];
    assert_eq!(lines.len(), begins.len(), "{lines:#?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
        assert!(line.ends_with(" samples/s"), "{line}");
    }
    assert_eq!(plain(&json!({"plain_lines": 0})), [""; 0]);
    let lines = plain(&json!({"plain_lines": 3, "rate": "none", "digits": 1, "total_eta": true}));
    let train: Vec<&String> = lines.iter().filter(|line| line.contains("train")).collect();
    assert_eq!(train.len(), 6);
    assert!(
        train[0].starts_with("epoch 1/2 train 1/3  loss 2.3  eta 0:00:00  total eta 0:0"),
        "{}",
        train[0]
    );
    assert!(
        train[2].starts_with("epoch 1/2 train 3/3  loss 2.3  total eta 0:0"),
        "{}",
        train[2]
    );
}

#[test]
fn metrics_rate_and_window_are_those_that_are_asked_for() {
    let lines = plain(
        &json!({"metrics": ["accuracy", "f1"], "rate": "iterations", "eta": false, "digits": 2}),
    );
    assert!(
        lines[0].starts_with("epoch 1/2 train 3/3  accuracy 0.08  "),
        "{}",
        lines[0]
    );
    assert!(lines[0].ends_with(" iterations/s"), "{}", lines[0]);
    let losses = |config: Value| -> Vec<f64> {
        let lines = plain(&config);
        let train = lines.iter().filter(|line| line.contains("train"));
        train
            .map(|line| {
                line.split("loss ")
                    .nth(1)
                    .expect("a loss")
                    .parse()
                    .expect("a number")
            })
            .collect()
    };
    let of = |window: u64| json!({"plain_lines": 3, "rate": "none", "eta": false, "digits": 17, "window": window});
    let each = losses(of(1));
    let smooth = losses(of(2));
    for index in 1..each.len() {
        let mean = f64::midpoint(each[index - 1], each[index]);
        assert!(
            (smooth[index] - mean).abs() < 1e-12,
            "{} {mean}",
            smooth[index]
        );
    }
}

#[test]
fn a_wrong_progress_is_refused() {
    refused("progress", json!({"width": 0}), &["hooks[0].config.width"]);
    refused(
        "progress",
        json!({"refresh_per_second": 1000}),
        &["hooks[0].config.refresh_per_second"],
    );
    refused("progress", json!({"rate": "epochs"}), &["`samples`"]);
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use super::super::terminal::{lines, run};
    use super::*;

    /// What a run with `console` and `progress` writes to a terminal.
    fn written(config: &Value, columns: u16, kind: &str) -> String {
        let place = Workplace::new(PLUGINS);
        let console = json!({"hook": "console", "config": {"interval": 1}});
        let hooks = json!([{"hook": "progress", "config": config}, console]);
        place.write(&edit(tiny(), "/hooks", hooks));
        run(&place, columns, kind)
    }

    #[test]
    fn bars_come_and_go_and_never_tear_a_line() {
        let text = written(&json!({"refresh_per_second": 60}), 80, "xterm");
        assert!(text.contains("epoch 1/2 train [██████"), "{text:?}");
        assert!(text.contains("] 1/3  loss 2."), "{text:?}");
        let lines = lines(&text);
        assert!(lines.iter().all(|line| !line.contains('█')), "{lines:#?}");
        let console: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("batch "))
            .collect();
        assert_eq!(console.len(), 6, "{lines:#?}");
        for line in console {
            assert!(
                line.starts_with("console: epoch ") && line.contains("  lr 1.0000e-2"),
                "{line}"
            );
        }
        assert_eq!(lines.last().map(String::as_str), Some(""));
        // Between the two a bar was on the screen, and was put back below the message.
        assert!(
            text.contains("\r\x1b[Kconsole: epoch 1/2  batch 1/3"),
            "{text:?}"
        );
    }

    #[test]
    fn a_bar_that_is_left_stays_as_a_line() {
        let config = json!({"leave": true, "ascii": true, "width": 8});
        let lines = lines(&written(&config, 100, "xterm"));
        let bars: Vec<&String> = lines.iter().filter(|line| line.contains("[===")).collect();
        let begins = [
            "epoch 1/2 train [========] 3/3  loss 2.",
            "epoch 1/2 val [========] 2/2  loss 2.",
            "epoch 2/2 train [========] 3/3  loss 2.",
            "epoch 2/2 val [========] 2/2  loss 2.",
            "test [========] 1/1  loss 2.",
        ];
        assert_eq!(bars.len(), begins.len(), "{lines:#?}");
        for (line, begin) in bars.iter().zip(begins) {
            let line = line.strip_prefix("progress: ").expect("the hook's name");
            assert!(line.starts_with(begin), "{line}");
        }
    }

    #[test]
    fn bars_keep_to_their_refresh_rate_and_the_terminals_width() {
        let text = written(&json!({"refresh_per_second": 0.1}), 24, "xterm");
        // Drawn once, in the first iteration; each message that came then put it back.
        let drawn: Vec<&str> = text
            .split("\x1b[K")
            .filter(|part| part.contains("train ["))
            .collect();
        assert!(!drawn.is_empty());
        for part in drawn {
            let bar = part
                .rsplit('\n')
                .next()
                .expect("a line")
                .trim_end_matches('\r');
            assert_eq!(bar, "epoch 1/2 train [██████", "{part:?}");
        }
    }

    #[test]
    fn a_terminal_that_can_clear_nothing_gets_plain_lines() {
        let text = written(&json!({}), 80, "dumb");
        assert!(!text.contains('\x1b') && !text.contains('█'), "{text:?}");
        assert!(text.contains("epoch 2/2 val 2/2  loss 2."), "{text:?}");
    }
}

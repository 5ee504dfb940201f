//! `sconce run --ui`: the run is the same with the live view, and the terminal is given back.

use serde_json::{Value, json};

use sconce_tests::{Workplace, edit, tiny};

fn place() -> Workplace {
    let plugins = ["sconce-plugin-console", "sconce-plugin-csv"];
    let place = Workplace::new(&plugins);
    place.write(&edit(tiny(), "/hooks", json!(["console", "csv"])));
    place
}

fn weights(place: &Workplace) -> Vec<u8> {
    std::fs::read(place.path("out/weights.safetensors")).expect("they are there")
}

/// The weights of the run in lines, with so many epochs.
fn in_lines(epochs: u64) -> Vec<u8> {
    let place = place();
    let epochs = format!("train.epochs={epochs}");
    place
        .sconce(&["run", "manifest.json", "--set", &epochs])
        .expect(0, &[]);
    weights(&place)
}

#[test]
fn without_a_terminal_there_are_lines_and_a_word_on_why() {
    let place = place();
    place.sconce(&["run", "manifest.json", "--ui"]).expect(
        0,
        &[
            "lines instead of the live view: standard error is not a terminal",
            "epoch",
        ],
    );
    assert_eq!(weights(&place), in_lines(2));
    let json = ["run", "manifest.json", "--ui", "--log-format", "json"];
    place
        .sconce(&json)
        .expect(0, &["lines instead of the live view: the log is JSON"]);
}

#[cfg(target_os = "linux")]
mod on_a_terminal {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::process::Stdio;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

    use super::{Value, Workplace, edit, in_lines, json, place, tiny, weights};

    /// To the other screen, and back.
    const ENTER: &str = "\x1b[?1049h";
    const LEAVE: &str = "\x1b[?1049l";

    /// What a run on a terminal has left.
    struct Ended {
        code: i32,
        /// What was drawn.
        drawn: String,
        /// What stands there afterwards.
        after: String,
    }

    /// Runs the manifest with a terminal of 80 columns behind all three streams, and presses keys as
    /// soon as the view has it.
    fn run(place: &Workplace, arguments: &[&str], kind: &str, keys: &str) -> Ended {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size).expect("a size");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let name = name.into_string().expect("a path");
        let mut command = place.command(&["run", "manifest.json", "--ui"]);
        command.args(arguments).env("TERM", kind);
        let screen = || {
            let screen = File::options().read(true).write(true).open(&name);
            Stdio::from(screen.expect("opened"))
        };
        command.stdin(screen()).stdout(screen()).stderr(screen());
        let mut child = command.spawn().expect("started");
        // The last handles of the screen but the child's: reading ends with the child.
        drop(command);
        let mut controller = File::from(controller);
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        let mut keys = Some(keys);
        // The end is an error on Linux: nobody is left on the other side.
        while let Ok(count @ 1..) = controller.read(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
            let has_view = String::from_utf8_lossy(&all).contains(ENTER);
            if let Some(keys) = keys.take_if(|_| has_view) {
                controller.write_all(keys.as_bytes()).expect("pressed");
            }
        }
        let code = child.wait().expect("ended").code().unwrap_or(-1);
        let modes = tcgetattr(&controller).expect("modes").local_modes;
        let usual = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        assert!(
            modes.contains(usual),
            "the terminal is as it was: {modes:?}"
        );
        let text = String::from_utf8_lossy(&all).into_owned();
        assert_eq!(text.matches(ENTER).count(), text.matches(LEAVE).count());
        let (drawn, after) = text.split_once(LEAVE).unwrap_or(("", &text));
        Ended {
            code,
            drawn: drawn.to_owned(),
            after: after.to_owned(),
        }
    }

    #[track_caller]
    fn expect(text: &str, words: &[&str]) {
        for word in words {
            assert!(text.contains(word), "no {word:?} in:\n{text}");
        }
    }

    #[test]
    fn a_run_has_the_same_bits_and_its_words_stand_there_afterwards() {
        let place = place();
        let ended = run(&place, &[], "xterm", "");
        assert_eq!(ended.code, 0, "{}", ended.after);
        expect(&ended.drawn, &["tiny", "run `tiny` in"]);
        // What `console` has said, and then the summary.
        let (log, summary) = ended
            .after
            .split_once("completed: 2 epochs")
            .expect("its end");
        expect(log, &["epoch"]);
        expect(summary, &["time in train"]);
        assert_eq!(weights(&place), in_lines(2));
    }

    #[test]
    fn keys_save_a_checkpoint_and_stop_and_the_run_can_be_gone_on_with() {
        let place = place();
        // Far more epochs than there is patience for: the keys end it.
        let many = ["--set", "train.epochs=100000000"];
        let ended = run(&place, &many, "xterm", "vcpp1234\tqy");
        assert_eq!(ended.code, 0, "{}", ended.after);
        expect(
            &ended.after,
            &[
                "validating after iteration",
                "saving the checkpoint `by-key` after iteration",
                "stopped (asked for at the terminal)",
            ],
        );
        let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
        assert_eq!(record["outcome"], "stopped");
        assert_eq!(record["hook"], Value::Null);
        let iterations = record["iterations"].as_u64().expect("a number");
        let epochs = iterations / 3 + 2;
        let epochs_set = format!("train.epochs={epochs}");
        let resume = ["run", "manifest.json", "--resume", "by-key", "--set"];
        place
            .sconce(&[&resume[..], &[&epochs_set]].concat())
            .expect(0, &["resumes from"]);
        assert_eq!(weights(&place), in_lines(epochs));
    }

    #[test]
    fn control_c_is_an_interrupt() {
        let place = place();
        let many = ["--set", "train.epochs=100000000"];
        let ended = run(&place, &many, "xterm", "\x03");
        assert_eq!(ended.code, 130, "{}", ended.after);
        expect(
            &ended.after,
            &[
                "SIGINT: saving a checkpoint",
                "ended by SIGINT",
                "continue with:",
            ],
        );
        assert!(!place.checkpoint("interrupted").is_empty());
    }

    #[test]
    fn a_dumb_terminal_gets_lines() {
        let place = place();
        let ended = run(&place, &[], "dumb", "");
        assert_eq!(ended.code, 0);
        expect(
            &ended.after,
            &[
                "lines instead of the live view: the terminal is a dumb one",
                "completed: 2",
            ],
        );
    }

    #[test]
    fn hooks_that_bring_the_process_down_leave_the_terminal_as_it_was() {
        for (how, code, words) in [
            ("segv", 5, "hook `bad` crashed (SIGSEGV)"),
            ("exit", 5, "hook `bad` called `exit`"),
            ("nothing", 4, "nothing is called `nothing`"),
        ] {
            let place = Workplace::new(&["sconce-fixture-wrecker"]);
            let config = json!({"at": "after_iter", "how": how, "after_iteration": 2});
            let hook = json!([{"hook": "wrecker", "name": "bad", "config": config}]);
            place.write(&edit(tiny(), "/hooks", hook));
            let ended = run(&place, &[], "xterm", "");
            assert_eq!(ended.code, code, "{how}: {}", ended.after);
            assert!(!ended.drawn.is_empty(), "{how}");
            expect(&ended.after, &[words]);
        }
    }
}

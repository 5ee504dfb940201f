//! Tests from creation to drop, in every order that a host uses.

use std::thread;
use std::time::{Duration, Instant};

use sconce_plugin_api::Phase;
use serde_json::json;

use super::asks::asks;
use super::points::points;
use super::ranks::ranks;
use crate::plugin::instance::HookInstance;
use crate::validate::finding::{Checked, Finding, Verdict, failed, passed, unless};
use crate::validate::stage::Script;
use crate::validate::stage::resources::Holdings;
use crate::validate::stage::trial::TrialEnvironment;
use crate::validate::stage::witness::{Recorder, WitnessScript};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "lifecycle",
    about: "from creation to drop, in every order that a host knows",
    tests: &[
        Test {
            name: "lifecycle.run",
            about: "A small run with training, validation, test, accumulated batches and checkpoints \
                    goes through all mount points to its end.",
            advice: "Look at the error: the hook ends runs in which nothing is wrong. If it needs \
                     other options, give them with `--config`.",
            level: 1,
            scope: TestScope::Hook,
            check: run,
        },
        Test {
            name: "lifecycle.points",
            about: "The hook handles the mount points that its metadata lists, and no others.",
            advice: "Leave the list to `#[hook(…)]`.",
            level: 3,
            scope: TestScope::Hook,
            check: points,
        },
        Test {
            name: "lifecycle.asks",
            about: "The hook asks for nothing that its metadata don't list.",
            advice: "Add what functions outside of the block ask for by `asks = […]` in `#[hook(…)]`.",
            level: 3,
            scope: TestScope::Hook,
            check: asks,
        },
        Test {
            name: "lifecycle.ranks",
            about: "A hook that changes parameters, gradients or the loss runs on all ranks.",
            advice: "Write `ranks = \"all\"` in `#[hook(…)]`.",
            level: 3,
            scope: TestScope::Hook,
            check: ranks,
        },
        Test {
            name: "lifecycle.create-drop",
            about: "Created and dropped 1000 times without a run, it leaves no file, thread or memory \
                    behind.",
            advice: "Open files and start threads in `before_run`, and end them when the hook is \
                     dropped.",
            level: 2,
            scope: TestScope::Hook,
            check: create_drop,
        },
        Test {
            name: "lifecycle.two-instances",
            about: "Two of the hook in one run don't disturb each other: one that is not called keeps \
                    its state.",
            advice: "Keep everything in the hook's own fields: no `static`, no `thread_local!`.",
            level: 3,
            scope: TestScope::Hook,
            check: two_instances,
        },
        Test {
            name: "lifecycle.two-in-a-run",
            about: "A run with two of the hook comes to its end without a panic.",
            advice: "Derive names of files and of published values from `Setup::name` where two can \
                     meet.",
            level: 4,
            scope: TestScope::Hook,
            check: two_in_a_run,
        },
        Test {
            name: "lifecycle.zero-epochs",
            about: "A run that trains nothing is not an error.",
            advice: "Don't divide by counts that can be zero; don't expect a first batch.",
            level: 3,
            scope: TestScope::Hook,
            check: zero_epochs,
        },
        Test {
            name: "lifecycle.evaluation-only",
            about: "A run that only evaluates the test data is not an error.",
            advice: "Don't expect `before_epoch` of the training to have been called.",
            level: 3,
            scope: TestScope::Hook,
            check: evaluation_only,
        },
        Test {
            name: "lifecycle.stop",
            about: "A run that is stopped in the middle of an epoch ends without an error.",
            advice: "Take `after_run` for the end, not a count of epochs.",
            level: 3,
            scope: TestScope::Hook,
            check: stop,
        },
        Test {
            name: "lifecycle.exception",
            about: "Where another hook fails, this one goes through `on_exception` and `after_run` \
                    without a fault of its own.",
            advice: "Expect in `after_run` and in drop that the epoch is not finished.",
            level: 3,
            scope: TestScope::Hook,
            check: exception,
        },
        Test {
            name: "lifecycle.leaves-nothing",
            about: "After a run its threads have ended, its files are closed, the current directory is \
                    the old one and standard output is untouched.",
            advice: "Join threads in `Drop`; write messages with `TaskView::info`, never with \
                     `println!`.",
            level: 4,
            scope: TestScope::Hook,
            check: leaves_nothing,
        },
        Test {
            name: "lifecycle.every-form",
            about: "Runs of other forms (batches of one, one epoch, long accumulation, no test) come to \
                    their end without a fault.",
            advice: "Ask the task view for counts instead of assuming them.",
            level: 7,
            scope: TestScope::Hook,
            check: every_form,
        },
    ],
};

fn run(subject: &Subject) -> Checked {
    let played = subject.play(&Script {
        edits: vec![("/train/accumulate", json!(2))],
        part: WitnessScript {
            saves: vec![2, 4],
            ..WitnessScript::default()
        },
        ..Script::plain("run")
    })?;
    played.without_fault(subject)?;
    Ok(passed(played.ending()))
}

fn create_drop(subject: &Subject) -> Checked {
    let config = subject.config()?.to_string();
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    subject.doing("1000 creations and drops");
    let times = |count| (0..count).try_for_each(|_| trial.with(&config, |_| Ok(())));
    times(100)?;
    let before = Holdings::now();
    times(900)?;
    let (Some(before), Some(after)) = (before, Holdings::now()) else {
        return Ok(passed("nothing is known of files and threads here"));
    };
    let grown = after.memory.saturating_sub(before.memory);
    let mut problems = still_left(&before, 0);
    if grown > 900 * 1024 {
        problems.push(format!("{} KiB of memory stay of each", grown / 900 / 1024));
    }
    Ok(unless(
        &problems,
        Verdict::Failed,
        format!("{} KiB more memory", grown / 1024),
    ))
}

/// Descriptions of additional open files and threads.
fn left(before: &Holdings, after: &Holdings) -> Vec<String> {
    let more = [
        ("files", before.files, after.files),
        ("threads", before.threads, after.threads),
    ];
    let more = more.into_iter().filter(|(_, before, after)| after > before);
    more.map(|(what, before, after)| format!("{} {what} stay open", after - before))
        .collect()
}

fn two_instances(subject: &Subject) -> Checked {
    let config = subject.config()?.to_string();
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    let (before, after) = trial.with(&config, |idle| {
        let before = state_of(idle)?;
        subject.play(&Script::plain("run"))?.without_panic()?;
        Ok((before, state_of(idle)?))
    })?;
    if before != after {
        return Ok(failed(
            "the state of a hook that was not called changed while another of its kind ran",
        ));
    }
    Ok(passed(match before.len() {
        0 => "it has no state".to_owned(),
        bytes => format!("{bytes} bytes of state"),
    }))
}

fn state_of(hook: &mut HookInstance) -> Result<Vec<u8>, Finding> {
    let state = hook.save_state();
    state.map_err(|error| failed(format!("its state can't be saved: {}", error.message)))
}

fn two_in_a_run(subject: &Subject) -> Checked {
    let played = subject.play(&Script {
        hooks: 2,
        ..Script::plain("two")
    })?;
    Ok(passed(
        played.without_panic()?.unwrap_or_else(|| played.ending()),
    ))
}

fn zero_epochs(subject: &Subject) -> Checked {
    without_fault(
        subject,
        &Script {
            edits: vec![("/train/epochs", json!(0))],
            ..Script::plain("zero-epochs")
        },
    )
}

fn evaluation_only(subject: &Subject) -> Checked {
    without_fault(
        subject,
        &Script {
            evaluates: Some(Phase::Test),
            ..Script::plain("evaluation")
        },
    )
}

fn stop(subject: &Subject) -> Checked {
    without_fault(
        subject,
        &Script {
            part: WitnessScript {
                stops: Some(4),
                ..WitnessScript::default()
            },
            ..Script::plain("stop")
        },
    )
}

fn without_fault(subject: &Subject, script: &Script) -> Checked {
    let played = subject.play(script)?;
    played.without_fault(subject)?;
    Ok(passed(played.ending()))
}

fn exception(subject: &Subject) -> Checked {
    let played = subject.play(&Script {
        part: WitnessScript {
            fails: Some(4),
            ..WitnessScript::default()
        },
        ..Script::plain("exception")
    })?;
    played.without_fault(subject)?;
    Ok(passed(""))
}

fn leaves_nothing(subject: &Subject) -> Checked {
    // After a first run, whatever the host itself keeps is already allocated.
    subject.play(&Script {
        hooks: 0,
        ..Script::plain("without")
    })?;
    subject.library()?;
    let directory = std::env::current_dir().ok();
    let printed = || std::fs::metadata(subject.place.join("stdout.txt")).map_or(0, |f| f.len());
    let (before, printed_before) = (Holdings::now(), printed());
    let played = subject.play(&Script::plain("run"))?;
    played.without_panic()?;
    let mut problems = Vec::new();
    if printed() > printed_before {
        problems.push("it prints to standard output, which is for results".to_owned());
    }
    if std::env::current_dir().ok() != directory {
        problems.push("it changed the current directory".to_owned());
    }
    problems.extend(
        played
            .recorder
            .lines
            .borrow()
            .iter()
            .filter(|(source, line)| source == "sconce" && line.contains("that was undone"))
            .map(|(_, line)| line.clone()),
    );
    if let Some(before) = before {
        problems.extend(still_left(&before, COPY));
    }
    Ok(unless(&problems, Verdict::Failed, ""))
}

/// What is held beside `before` and `own` files of the host, once threads that have been joined are gone: the system lists
/// them for a moment longer.
fn still_left(before: &Holdings, own: usize) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let Some(after) = Holdings::now() else {
            return Vec::new();
        };
        let after = Holdings {
            files: after.files.saturating_sub(own),
            ..after
        };
        let found = left(before, &after);
        if found.is_empty() || begin.elapsed() > SETTLED {
            return found;
        }
        thread::sleep(LOOK);
    }
}

/// Time after which a thread that is still listed was not joined.
const SETTLED: Duration = Duration::from_secs(2);

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Number of files that the host keeps open for a library: its private copy.
const COPY: usize = 1;

fn every_form(subject: &Subject) -> Checked {
    let forms = [
        ("batches-of-one", "/train/batch_size", json!(1)),
        ("one-epoch", "/train/epochs", json!(1)),
        ("one-update", "/train/accumulate", json!(64)),
        ("no-test", "/data/test", json!(0)),
        ("no-validation", "/train/validate_every", json!(0)),
        (
            "initial-validation",
            "/train/initial_validation",
            json!(true),
        ),
        ("many-epochs", "/train/epochs", json!(12)),
    ];
    let count = forms.len();
    for (name, pointer, value) in forms {
        let played = subject.play(&Script {
            edits: vec![(pointer, value)],
            ..Script::plain(name)
        })?;
        subject.doing(format_args!("the run `{name}`"));
        played.without_fault(subject)?;
    }
    Ok(passed(format!("{count} forms")))
}

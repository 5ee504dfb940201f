//! Tests of a hook's costs.

use serde_json::json;

use crate::validate::finding::{Checked, Finding, failed, passed, skipped, warning};
use crate::validate::stage::{Played, Script};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "speed",
    about: "what a hook costs",
    tests: &[
        Test {
            name: "speed.cost",
            about: "A call takes less than a millisecond on average, in a small run.",
            advice: "Do less at each iteration: an interval option, sums instead of copies, files \
                     written at the end of epochs.",
            level: 5,
            scope: TestScope::Hook,
            check: cost,
        },
        Test {
            name: "speed.memory",
            about: "Memory does not grow with the iterations.",
            advice: "Keep sums, not histories; write what must be kept to the run's directory.",
            level: 6,
            scope: TestScope::Hook,
            check: memory,
        },
    ],
};

/// Plays a run of `epochs` epochs with batches of one sample.
fn long(
    subject: &Subject,
    name: &'static str,
    hooks: usize,
    epochs: u64,
) -> Result<Played, Finding> {
    let played = subject.play(&Script {
        hooks,
        edits: vec![
            ("/train/epochs", json!(epochs)),
            ("/train/batch_size", json!(1)),
            ("/train/validate_every", json!(10)),
        ],
        is_deaf: true,
        ..Script::plain(name)
    })?;
    played.without_panic()?;
    Ok(played)
}

fn cost(subject: &Subject) -> Checked {
    let played = long(subject, "long", 1, 20)?;
    let times = played.report.profiles.iter();
    let times = times.flat_map(|(_, profile)| {
        let hooks = profile.hooks.iter();
        hooks.filter(|hook| hook.name == "subject-0")
    });
    let (seconds, calls) = times.fold((0.0, 0), |(seconds, calls), hook| {
        (seconds + hook.seconds, calls + hook.calls)
    });
    if calls == 0 {
        return Ok(skipped("it was never called within a pass"));
    }
    let each = seconds / calls as f64;
    let facts = format!("{:.2} µs a call, {calls} calls", each * 1e6);
    if each > 1e-3 {
        return Ok(warning(facts));
    }
    Ok(passed(facts))
}

/// Growth in bytes per iteration that causes a warning, and that fails the test.
const BOUNDS: (f64, f64) = (1024.0, 65536.0);

fn memory(subject: &Subject) -> Checked {
    let (Some(without), Some(with)) = (growth(subject, "without", 0)?, growth(subject, "with", 1)?)
    else {
        return Ok(skipped(
            "nothing is known of memory here, or the run ends too soon",
        ));
    };
    let each = (with - without).max(0.0);
    let facts = format!("{each:.0} bytes an iteration");
    Ok(match each {
        each if each > BOUNDS.1 => failed(facts),
        each if each > BOUNDS.0 => warning(facts),
        _ => passed(facts),
    })
}

/// Permanent memory growth in bytes per iteration, once the run has settled.
fn growth(subject: &Subject, name: &'static str, hooks: usize) -> Result<Option<f64>, Finding> {
    let played = long(subject, name, hooks, 60)?;
    let iterations = played.report.iterations.saturating_sub(10 * 24);
    let recorder = &played.recorder;
    let memory = recorder.settled.get().zip(recorder.ended.get());
    let grown = memory.map(|(settled, ended)| ended as f64 - settled as f64);
    Ok(grown
        .filter(|_| iterations > 0)
        .map(|grown| grown / iterations as f64))
}

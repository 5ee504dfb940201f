//! Tests of a hook's effect on the bits of the training.

use std::collections::BTreeSet;

use serde_json::json;

use crate::validate::finding::{Checked, failed, passed, skipped, warning};
use crate::validate::stage::witness::{Act, measured};
use crate::validate::stage::{Played, Script};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "purity",
    about: "what a hook does to the training's bits",
    tests: &[
        Test {
            name: "purity.bits",
            about: "A hook that asks for nothing and is lent nothing to write to leaves the \
                    parameters' bits as they are without it.",
            advice: "Views are for reading: never write through a pointer made of one; leave the \
                     floating-point mode alone.",
            level: 3,
            scope: TestScope::Hook,
            check: bits,
        },
        Test {
            name: "purity.repeatable",
            about: "Two runs with the same seed have the same parameters, publications and requests.",
            advice: "Draw random numbers from `Setup::seed`; no clocks and no hash maps' order in what \
                     steers the training.",
            level: 4,
            scope: TestScope::Hook,
            check: repeatable,
        },
        Test {
            name: "purity.isolated",
            about: "In a process of its own it leaves the same parameters, publications and requests.",
            advice: "Share nothing with other hooks but what is published through the task: no statics, no \
                     files that both write.",
            level: 5,
            scope: TestScope::Hook,
            check: isolated,
        },
        Test {
            name: "purity.reloaded",
            about: "Loaded again after every iteration, it leaves the same parameters, publications and requests.",
            advice: "Save in `save_state` all that the hook needs to go on, and restore it in `load_state`.",
            level: 6,
            scope: TestScope::Hook,
            check: reloaded,
        },
    ],
};

fn bits(subject: &Subject) -> Checked {
    let with = subject.play(&Script::plain("with"))?;
    with.without_panic()?;
    let written = with.recorder.written.borrow();
    if with.recorder.has_asked.get() || !written.is_empty() {
        let mut what: Vec<String> = written.iter().map(|kind| format!("{kind:?}")).collect();
        if with.recorder.has_asked.get() {
            what.push("requests".to_owned());
        }
        let what = what.join(", ").to_lowercase();
        return Ok(skipped(format!("it takes part in the training: {what}")));
    }
    let without = subject.play(&Script {
        hooks: 0,
        ..Script::plain("without")
    })?;
    if with.report.iterations != without.report.iterations {
        return Ok(skipped(format!(
            "the run with it ends sooner: {}",
            with.ending()
        )));
    }
    let pairs = with.bits.iter().zip(&without.bits);
    let differing = pairs.filter(|(one, other)| one != other).count();
    if differing > 0 || with.bits.len() != without.bits.len() {
        return Ok(failed(format!(
            "{differing} of {} parameters have other bits, though it asked for nothing",
            without.bits.len()
        )));
    }
    Ok(passed(format!("{} parameters", without.bits.len())))
}

fn repeatable(subject: &Subject) -> Checked {
    let one = subject.play(&Script::plain("one"))?;
    let other = subject.play(&Script::plain("other"))?;
    compare(&one, &other, "in the second run")
}

fn isolated(subject: &Subject) -> Checked {
    if cfg!(not(target_os = "linux")) {
        return Ok(skipped("hooks have processes of their own on Linux alone"));
    }
    let here = subject.play(&Script::plain("here"))?;
    let apart = subject.play(&Script {
        edits: vec![("/hooks/0/isolation", json!("process"))],
        ..Script::plain("apart")
    })?;
    compare(&here, &apart, "in a process of its own")
}

fn reloaded(subject: &Subject) -> Checked {
    let once = subject.play(&Script::plain("once"))?;
    let again = subject.play(&Script {
        reloads: Some(1),
        ..Script::plain("again")
    })?;
    compare(&once, &again, "loaded again after every iteration")
}

/// Compares what two runs left; `how` is what is different in the second one.
fn compare(one: &Played, other: &Played, how: &str) -> Checked {
    one.without_panic()?;
    other.without_panic()?;
    if one.bits != other.bits {
        return Ok(failed(format!("the parameters have other bits {how}")));
    }
    let of_the_run = |played: &Played| -> Vec<Act> {
        let acts = played.recorder.acts.borrow();
        let mut seen = BTreeSet::new();
        let acts = acts.iter().filter(|act| !act.is_of_the_hook());
        // Tensors may be lent several times in a call.
        let acts = acts.filter(|act| !act.is_write() || seen.insert((&act.moment, &act.action)));
        acts.cloned().collect()
    };
    let (acts, others) = (of_the_run(one), of_the_run(other));
    let mut pairs = acts.iter().zip(others.iter());
    if let Some((one, other)) = pairs.find(|(one, other)| !one.is_like(other)) {
        return Ok(failed(format!(
            "it {}\n  {how} it {}",
            one.told(),
            other.told()
        )));
    }
    if acts.len() != others.len() {
        return Ok(failed(format!(
            "{} publications and requests, {how} {}",
            acts.len(),
            others.len()
        )));
    }
    let measured = measured(&acts, &others);
    if !measured.is_empty() {
        return Ok(warning(format!(
            "it {} with another value in each run: right for measured times and memory alone",
            measured.join(", ")
        )));
    }
    Ok(passed(format!("{} publications and requests", acts.len())))
}

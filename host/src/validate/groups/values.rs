//! Tests with numbers, counts and names that no normal run has.

use serde_json::{Value, json};

use crate::validate::finding::{Checked, passed};
use crate::validate::stage::Script;
use crate::validate::stage::odd_task::Oddity;
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "values",
    about: "numbers, counts and names that no sane run has",
    tests: &[
        Test {
            name: "values.nan",
            about: "A loss, metrics, gradients and parameters that become NaN cause no panic.",
            advice: "Compare floats with `total_cmp` or `is_nan` first; don't unwrap `partial_cmp`.",
            level: 4,
            scope: TestScope::Hook,
            check: nan,
        },
        Test {
            name: "values.infinite",
            about: "Infinite ones neither.",
            advice: "Don't turn floats into whole numbers or durations unchecked.",
            level: 4,
            scope: TestScope::Hook,
            check: infinite,
        },
        Test {
            name: "values.no-validation",
            about: "A task without validation and test data causes no panic.",
            advice: "Metrics of a phase may be missing: `metric_of` answers `None`.",
            level: 4,
            scope: TestScope::Hook,
            check: no_validation,
        },
        Test {
            name: "values.one-sample",
            about: "One sample in each phase causes no panic.",
            advice: "Don't divide by `count - 1`.",
            level: 4,
            scope: TestScope::Hook,
            check: one_sample,
        },
        Test {
            name: "values.odd-metrics",
            about: "Metrics with an empty name, control characters or 64 KiB, and with the greatest, \
                    the least and a negative zero as values, cause no panic.",
            advice: "Escape names before they go into files; don't slice them at byte positions.",
            level: 5,
            scope: TestScope::Hook,
            check: odd_metrics,
        },
        Test {
            name: "values.odd-run",
            about: "A run whose name has spaces, quotes and emoji, in a directory of such a name, does \
                    not panic.",
            advice: "Keep paths as `Path`, and quote what goes into files.",
            level: 5,
            scope: TestScope::Hook,
            check: odd_run,
        },
        Test {
            name: "values.huge-rates",
            about: "Neither a learning rate at which everything overflows nor one at which nothing moves causes a panic.",
            advice: "Check what is computed from learning rates before it is used.",
            level: 6,
            scope: TestScope::Hook,
            check: huge_rates,
        },
    ],
};

fn nan(subject: &Subject) -> Checked {
    odd(subject, Oddity::Factor(f64::NAN))
}

fn infinite(subject: &Subject) -> Checked {
    odd(subject, Oddity::Factor(f64::INFINITY))
}

fn odd_metrics(subject: &Subject) -> Checked {
    odd(subject, Oddity::Metrics)
}

fn odd(subject: &Subject, oddity: Oddity) -> Checked {
    without_panic(
        subject,
        &Script {
            oddity,
            ..Script::plain("odd")
        },
    )
}

fn no_validation(subject: &Subject) -> Checked {
    edited(
        subject,
        vec![("/data/val", json!(0)), ("/data/test", json!(0))],
    )
}

fn one_sample(subject: &Subject) -> Checked {
    let sizes = [("/data/train"), ("/data/val"), ("/data/test")];
    edited(subject, sizes.map(|size| (size, json!(1))).to_vec())
}

fn odd_run(subject: &Subject) -> Checked {
    let name = "it's \"one\" run\u{1f525}";
    without_panic(
        subject,
        &Script {
            edits: vec![("/name", json!(name))],
            directory: Some(subject.place.join(format!("{name} directory"))),
            ..Script::plain("odd-run")
        },
    )
}

fn huge_rates(subject: &Subject) -> Checked {
    edited(subject, vec![("/optimizer/learning_rate", json!(1e30))])?;
    edited(subject, vec![("/optimizer/learning_rate", json!(1e-300))])
}

fn edited(subject: &Subject, edits: Vec<(&'static str, Value)>) -> Checked {
    without_panic(
        subject,
        &Script {
            edits,
            ..Script::plain("edited")
        },
    )
}

/// Plays a run that the hook may end with an error, but not with a panic.
fn without_panic(subject: &Subject, script: &Script) -> Checked {
    let played = subject.play(script)?;
    let error = played.without_panic()?;
    Ok(passed(match error {
        Some(error) => error.lines().next().unwrap_or_default().to_owned(),
        None => played.ending(),
    }))
}

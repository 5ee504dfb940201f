//! What hooks see of a run that was interrupted and resumed is what they see of one that was not.
//!
//! Two observers, one before and one behind all other hooks, write down the whole view at every mount
//! point. What they write of a resumed run must be, line by line, the rest of what they wrote of the run
//! that was left alone.

mod observer;
mod stage;

use std::collections::BTreeMap;

use observer::{Notes, is_measured};
use serde_json::{Map, Value, json};
use stage::{Course, Plugins, Stage};

const PACKAGES: [&str; 11] = [
    "sconce-plugin-checkpoints",
    "sconce-plugin-console",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-debugging",
    "sconce-plugin-logging",
    "sconce-plugin-metrics",
    "sconce-plugin-models",
    "sconce-plugin-optimisation",
    "sconce-plugin-profiling",
    "sconce-plugin-report",
];

/// Hooks that are run side by side.
fn together() -> Vec<(&'static str, Value)> {
    vec![
        (
            "accumulate",
            json!({"variables": ["outputs"], "phases": ["val"]}),
        ),
        ("activation-stats", json!({"every": 1})),
        ("anomaly", json!({"every": 2})),
        (
            "check",
            json!({"monitor": "accuracy", "required": 0.0, "by_epoch": 1}),
        ),
        (
            "checkpoint",
            json!({"best": [{"monitor": "loss"}], "keep_last": 2}),
        ),
        ("classification", json!({})),
        (
            "compute-stats",
            json!({"variables": {"outputs": ["mean", "max"]}}),
        ),
        ("console", json!({"interval": 2})),
        ("csv", json!({})),
        ("early-stopping", json!({"monitor": "loss", "patience": 9})),
        ("ema", json!({"decay": 0.9})),
        (
            "freeze",
            json!({"parameters": ["linear_1.bias"], "until_iteration": 9}),
        ),
        ("grad-clip", json!({"max_norm": 0.5})),
        ("grad-noise", json!({"eta": 0.01})),
        ("gradient-flow", json!({"every": 1})),
        ("iteration-timer", json!({})),
        ("jsonl", json!({"interval": 1})),
        ("loss-scale", json!({"mode": "dynamic"})),
        (
            "loss-spike",
            json!({"window": 4, "rtol": 0.01, "action": "warn"}),
        ),
        (
            "lr-schedule",
            json!({"warm_up": {"steps": 2}, "schedule": {"kind": "cosine"}}),
        ),
        ("memory", json!({"every": 2})),
        ("model-complexity", json!({})),
        (
            "on-plateau",
            json!({"long_term": 2, "short_term": 1, "action": "lower-rate"}),
        ),
        ("output-mask", json!({"present": ["upper", "lower"]})),
        ("plot-lines", json!({"metrics": ["loss"]})),
        ("predictions", json!({"phases": ["val"]})),
        ("profile", json!({})),
        ("progress", json!({})),
        (
            "prune",
            json!({"amount": 0.5, "begin": 1, "end": 4, "every": 1}),
        ),
        ("report", json!({})),
        ("stop-on-nan", json!({"watch": ["loss", "gradients"]})),
        ("swa", json!({"start": 0.5, "evaluate": []})),
        ("throughput", json!({"every": 2})),
        ("time-limit", json!({"hours": 8})),
        ("trace", json!({"schedule": {"skip_first": 2, "active": 3}})),
        ("training-trace", json!({})),
        ("weight-constraint", json!({"kind": "max-norm", "max": 1.0})),
    ]
}

/// Hooks that change what all others do, and further settings of some.
fn by_themselves() -> Vec<(&'static str, Value)> {
    vec![
        (
            "accumulation-schedule",
            json!({"factors": {"0": 2, "1": 4}}),
        ),
        (
            "checkpoint",
            json!({"epochs": 0, "iterations": 2, "background": true}),
        ),
        (
            "early-stopping",
            json!({"monitor": "loss", "patience": 1, "restore_best": true}),
        ),
        (
            "freeze",
            json!({"parameters": ["linear_1.*"], "until_epoch": 1}),
        ),
        (
            "loss-spike",
            json!({"window": 2, "rtol": 0.001, "action": "skip-update"}),
        ),
        ("lr-range-test", json!({"steps": 3})),
        (
            "lr-schedule",
            json!({"by": "epoch", "schedule": {"kind": "exponential", "factor": 0.5}}),
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "one-cycle"}, "momentum": {"kind": "opposite"}}),
        ),
        (
            "overfit-check",
            json!({"below": 0.0, "iterations": 9, "one_batch": false, "otherwise": "warn"}),
        ),
        ("precise-batchnorm", json!({})),
        (
            "swa",
            json!({"start": 0.0, "learning_rate": 0.01, "anneal_epochs": 2, "recompute_statistics": true}),
        ),
    ]
}

/// Hooks with a checkpoint of their own that they go back to and delete before the run ends. What was saved
/// meanwhile can't be gone on from once the run has ended, only where it was interrupted.
const DELETING: [&str; 1] = ["lr-range-test"];

/// Hooks that no such run can have, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("samples", "it wants a model of text, and these are points"),
    (
        "save-file",
        "it copies files of the machine; it sees nothing of the run",
    ),
    ("visualize", "it wants images, and these are points"),
];

/// What a resumed run did from where it was left: without its beginning, which comes before everything is
/// restored, without the saves that waited for a validation's end, and without the `before_epoch` of an epoch that was begun before.
fn rest(notes: &Notes, expected: &[String]) -> Vec<String> {
    let lines = &notes.lines;
    // The first one: a hook may roll back later.
    let is_loaded = |line: &String| line.starts_with("last after_load_checkpoint(");
    let loaded = lines.iter().position(is_loaded).expect("it was loaded");
    let rest = lines.get(loaded + 1..).unwrap_or_default();
    let saves = |lines: &[String]| {
        let is_save = |line: &&String| line.contains("_save_checkpoint(train) ");
        lines.iter().take_while(is_save).count()
    };
    let waited = saves(rest).saturating_sub(saves(expected));
    let rest = rest.get(waited..).unwrap_or_default();
    let opens = |lines: &[String]| {
        let opening = lines
            .iter()
            .take_while(|line| line.contains(" before_epoch(train)"));
        opening.count()
    };
    let again = opens(rest).saturating_sub(opens(expected));
    rest.get(again..).unwrap_or_default().to_vec()
}

/// What comes after a save, from where a run that is resumed from it goes on.
///
/// A checkpoint knows its place between passes, not between the calls that end one. These do not come again as they were:
///
/// - `epoch_profile` of the training's pass behind an `after_epoch` that saved: its times are not kept;
/// - the saves that waited for a validation's end, behind one asked for by its `after_loop`, which says already
///   that the validation is over: they come again, but in the training.
fn goes_on(lines: &[String]) -> &[String] {
    let ends = [
        " epoch_profile(train) ",
        " before_save_checkpoint(val) ",
        " after_save_checkpoint(val) ",
    ];
    let is_end = |line: &&String| ends.iter().any(|end| line.contains(*end));
    let count = lines.iter().take_while(is_end).count();
    lines.get(count..).unwrap_or_default()
}

/// Where two notes differ first, cut to what differs.
fn difference(expected: &[String], found: &[String]) -> Option<String> {
    let at = (0..expected.len().max(found.len())).find(|&at| expected.get(at) != found.get(at))?;
    let line = |lines: &[String]| {
        lines
            .get(at)
            .cloned()
            .unwrap_or_else(|| "the end".to_owned())
    };
    let (expected, found) = (line(expected), line(found));
    let pairs = expected.chars().zip(found.chars());
    let same = pairs.take_while(|(a, b)| a == b).count();
    let show = |line: &str| -> String {
        line.chars()
            .skip(same.saturating_sub(60))
            .take(120)
            .collect()
    };
    let head: String = expected.chars().take(50).collect();
    Some(format!(
        "line {at}, {head}…\n    expected …{}\n    found    …{}",
        show(&expected),
        show(&found)
    ))
}

/// The files that a run leaves whose content follows from the run alone.
fn tables(stage: &Stage<'_>) -> Vec<String> {
    let text = |file: &str| std::fs::read_to_string(stage.path(file)).unwrap_or_default();
    let tables =
        ["train.csv", "val.csv", "gradient-flow.csv"].map(|file| without_times(&text(file)));
    let log = text("log.jsonl");
    let log = log.lines().map(|line| {
        let mut entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        entry.retain(|key, _| !is_measured(key));
        Value::Object(entry).to_string()
    });
    tables.into_iter().chain(log).collect()
}

/// A table without the columns that come from a clock or the system.
fn without_times(table: &str) -> String {
    let header: Vec<&str> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split(',')
        .collect();
    let rows = table.lines().map(|row| {
        let cells = header.iter().zip(row.split(','));
        let cells = cells.filter(|(name, _)| !is_measured(name));
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join(",")
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// How a run that is resumed from a checkpoint, and what it leaves, differs from the undisturbed one.
fn resumed(
    stage: &Stage<'_>,
    course: Course<'_>,
    expected: &[String],
    left: &[String],
) -> Option<String> {
    let notes = stage.run(course);
    let found = difference(expected, &rest(&notes, expected));
    found.or_else(|| difference(left, &tables(stage)).map(|found| format!("files: {found}")))
}

/// The differences between an undisturbed run that saves checkpoints all the time, and runs that are resumed from
/// those with the wanted tags.
///
/// Those of the test are left out: no stage comes after it, so that a run that is resumed from one ends the training
/// and tests a second time.
fn after_saves(stage: &Stage<'_>, wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let saves = Course {
        saves: true,
        ..Course::default()
    };
    let is_resumable = |tag: &str| !tag.starts_with("test-");
    let twin = stage.run(saves);
    // The last that there is: a hook may have stopped the run.
    let mut tags = twin.saved.iter().map(|(tag, _)| tag.as_str());
    let last = tags.rfind(|tag| is_resumable(tag));
    let content = || last.map_or_else(BTreeMap::default, |last| stage.content(last));
    let of_twin = content();
    let straight = stage.run(saves);
    if let Some(failure) = &straight.failure {
        return vec![format!("the undisturbed run fails: {failure}")];
    }
    if let Some(difference) = difference(&twin.lines, &straight.lines) {
        return vec![format!("two undisturbed runs: {difference}")];
    }
    let left = tables(stage);
    let mut expected_content = content();
    // Where two undisturbed runs differ there are times.
    expected_content.retain(|name, part| of_twin.get(name) == Some(&*part));
    let mut found = Vec::new();
    let resumable = straight.saved.iter().map(|(tag, _)| tag.as_str());
    for tag in resumable.filter(|tag| is_resumable(tag) && wanted(tag)) {
        let told = format!(") {tag} None ");
        let is_told =
            |line: &String| line.starts_with("last after_save_checkpoint(") && line.contains(&told);
        // The last one: a tag may be saved again after a roll back.
        let from = straight.lines.iter().rposition(is_told);
        let Some(from) = from else {
            found.push(format!("{tag}: it was not saved"));
            continue;
        };
        let expected = goes_on(straight.lines.get(from + 1..).unwrap_or_default());
        let course = Course {
            resume: Some(tag),
            ..saves
        };
        let seen = resumed(stage, course, expected, &left);
        let again = content();
        let mut parts = expected_content.iter();
        let states = parts.find(|(name, part)| again.get(*name) != Some(*part));
        let states = states.and_then(|(name, part)| {
            let of_it = again.get(name).cloned().unwrap_or_default();
            let found = difference(std::slice::from_ref(part), &[of_it])?;
            Some(format!("in the last checkpoint, {name}: {found}"))
        });
        found.extend(
            seen.or(states)
                .map(|difference| format!("{tag}: {difference}")),
        );
    }
    found
}

/// The same with runs that are interrupted wherever an observer writes one of the wanted lines.
fn after_interrupts(stage: &Stage<'_>, wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let straight = stage.run(Course::default());
    if let Some(failure) = &straight.failure {
        return vec![format!("the undisturbed run fails: {failure}")];
    }
    let left = tables(stage);
    let mut count = 0;
    let mut found = Vec::new();
    for (at, line) in straight
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| wanted(line))
    {
        let disturbed = stage.run(Course {
            interrupt_at: Some(at + 1),
            ..Course::default()
        });
        let saved = disturbed.saved.iter().find(|(tag, _)| tag == "interrupted");
        let (_, saved) = saved.unwrap_or_else(|| panic!("no checkpoint after {line:.60}"));
        let (before, after) = straight.lines.split_at(*saved);
        let difference = difference(before, disturbed.lines.get(..*saved).unwrap_or_default());
        let course = Course {
            resume: Some("interrupted"),
            ..Course::default()
        };
        let difference = difference.or_else(|| resumed(stage, course, after, &left));
        count += 1;
        found.extend(
            difference.map(|difference| format!("interrupted at {line:.40}: {difference}")),
        );
    }
    assert!(count > 0, "no line is wanted");
    found
}

/// The points at which a hook alone is resumed: at the beginning of an epoch, between two updates, at the epoch's end,
/// during its validation, after it, and between two updates of the next epoch.
const MOMENTS: [&str; 6] = [
    "begun-0",
    "iteration-2",
    "iteration-7",
    "validated-1",
    "cycle-1",
    "iteration-11",
];

/// The differences as an error: hooks that catch panics keep quiet about a message that is not theirs.
fn none(found: &[String]) -> Result<(), String> {
    if found.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    ))
}

#[test]
fn each_hook_alone_sees_of_a_resumed_run_what_it_would_of_an_undisturbed_one() -> Result<(), String>
{
    let plugins = Plugins::open(&PACKAGES);
    let alone = together().into_iter().chain(by_themselves());
    let mut found = Vec::new();
    for hook in alone {
        let kind = format!("{} {}", hook.0, hook.1);
        let is_deleting = DELETING.contains(&hook.0);
        let stage = Stage::new(&plugins, &[hook]);
        let differences = if is_deleting {
            after_interrupts(&stage, &|line| {
                line.starts_with("last after_iter(train)") && line.contains(" iteration=2 ")
            })
        } else {
            after_saves(&stage, &|tag| MOMENTS.contains(&tag))
        };
        found.extend(
            differences
                .into_iter()
                .map(|text| format!("{kind}: {text}")),
        );
    }
    none(&found)?;
    // None was forgotten.
    let all = together().into_iter().chain(by_themselves());
    let known: Vec<&str> = all
        .map(|(kind, _)| kind)
        .chain(LEFT_OUT.map(|(kind, _)| kind))
        .collect();
    let kinds = plugins.kinds();
    assert!(kinds.len() > PACKAGES.len(), "{kinds:?}");
    for kind in kinds {
        assert!(known.contains(&kind), "the hook `{kind}` is in no run here");
    }
    Ok(())
}

#[test]
fn all_hooks_see_the_same_wherever_the_run_was_saved() -> Result<(), String> {
    let plugins = Plugins::open(&PACKAGES);
    for hooks in [Vec::new(), together()] {
        let stage = Stage::new(&plugins, &hooks);
        none(&after_saves(&stage, &|_| true))?;
    }
    Ok(())
}

#[test]
fn all_hooks_see_the_same_wherever_the_run_was_interrupted() -> Result<(), String> {
    let plugins = Plugins::open(&PACKAGES);
    let points = ["after_iter", "before_epoch", "after_epoch", "after_cycle"];
    let wanted = |line: &str| {
        // The test is left out when a run is interrupted, so there is nothing to resume in it.
        let is_at = |point: &&str| {
            let begin = format!("last {point}(");
            line.strip_prefix(&begin)
                .is_some_and(|rest| !rest.starts_with("test"))
        };
        points.iter().any(is_at)
    };
    let stage = Stage::new(&plugins, &together());
    none(&after_interrupts(&stage, &wanted))
}

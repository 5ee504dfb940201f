//! Compares the rates with PyTorch's, recorded by `tests/reference/schedules.py`.

#![allow(
    clippy::expect_used,
    reason = "a test that finds its data broken may panic"
)]

use sconce_plugin_testing::{Failed, ScriptedRun};
use serde_json::{Value, json};

use super::*;

const CASES: &str = include_str!("../../../../tests/reference/schedules.json");

fn way(config: &Value) -> ScheduleSegment {
    let config: Config = serde_json::from_value(config.clone()).expect("a configuration");
    ScheduleSegment {
        warm_up: config.warm_up.clone(),
        stages: config.stages().expect("stages"),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("a list").iter();
    values
        .map(|value| value.as_f64().expect("a number"))
        .collect()
}

#[test]
fn every_schedule_has_the_rates_of_pytorch() {
    let cases: Vec<Value> = serde_json::from_str(CASES).expect("JSON");
    assert!(cases.len() >= 20);
    for case in cases {
        let way = way(&case["config"]);
        let base = case["base"].as_f64().expect("a number");
        let total = case["total"].as_u64().expect("a number");
        let plateau = way.stages.iter().find_map(Stage::plateau);
        let metrics = plateau.map(|_| numbers(&case["metrics"]));
        let mut watch = Watch::default();
        let config: Config =
            serde_json::from_value(case["config"].clone()).expect("a configuration");
        for (step, expected) in case
            .get("momenta")
            .map(numbers)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let momentum = config.momentum.as_ref().expect("a momentum");
            let found = momentum.value(&way, 0.9, step as u64, total);
            assert!(
                (found - expected).abs() < 1e-9,
                "{}, step {step}: {found}, PyTorch {expected}",
                case["config"]
            );
        }
        let rates = numbers(&case["rates"]);
        assert!(!rates.is_empty(), "{}", case["config"]);
        for (step, expected) in rates.into_iter().enumerate() {
            let rate = way.rate(base, step as u64, total, &watch);
            let error = (rate - expected).abs();
            assert!(
                error <= 1e-9 * base.max(expected),
                "{}, step {step}: {rate}, PyTorch {expected}",
                case["config"]
            );
            if let (Some(plateau), Some(metrics)) = (plateau, &metrics) {
                watch.see(plateau, rule(plateau).expect("a rule"), metrics[step]);
            }
        }
    }
}

#[test]
fn what_says_nothing_or_too_much_is_refused() {
    let message = |text: &str| {
        let config: Config = serde_json::from_str(text).expect("a configuration");
        config
            .stages()
            .map(drop)
            .map_err(|error| error.message().to_owned())
    };
    for (text, words) in [
        ("{}", "exactly one of `schedule` and `chain`"),
        (
            r#"{"chain": [{"schedule": {"kind": "constant"}}, {"schedule": {"kind": "cosine"}}]}"#,
            "every schedule but the last one needs `steps`",
        ),
        (
            r#"{"schedule": {"kind": "plateau", "monitor": "width"}}"#,
            "say by `rule`",
        ),
    ] {
        assert!(
            message(text).is_err_and(|found| found.contains(words)),
            "{text}"
        );
    }
}

/// Epochs of two iterations, whose validation losses are these; the second group has an eighth of the rate.
fn run(losses: &'static [f64]) -> ScriptedRun {
    ScriptedRun::new()
        .epochs(losses.len() as u64)
        .iterations(2)
        .learning_rate(1.0)
        .group("fc2", 0.125)
        .metric(Phase::Val, "loss", |epoch| losses[epoch as usize - 1])
}

#[test]
fn rates_follow_the_updates_through_the_warm_up_and_the_schedule() -> std::result::Result<(), Failed>
{
    let config = json!({"warm_up": {"steps": 2, "from": 0.5}, "schedule": {"kind": "linear"}});
    let seen = run(&[1.0; 3]).drive::<LrSchedule>(config.clone())?;
    assert_eq!(seen.learning_rates(), [0.5, 0.75, 1.0, 0.75, 0.5, 0.25]);
    run(&[1.0; 3]).check_resume::<LrSchedule>(config)
}

#[test]
fn rates_of_the_chosen_groups_follow_the_epochs() -> std::result::Result<(), Failed> {
    let config = json!({
        "by": "epoch",
        "schedule": {"kind": "step", "every": 1, "factor": 0.5},
        "groups": ["fc2"],
    });
    let seen = run(&[1.0; 3]).drive::<LrSchedule>(config)?;
    let asked = seen.asked().iter();
    let asked: Vec<_> = asked
        .map(|asked| (asked.at.epoch, asked.text.as_str(), asked.number))
        .collect();
    assert_eq!(
        asked,
        [(0, "fc2", 0.125), (1, "fc2", 0.0625), (2, "fc2", 0.03125)]
    );
    assert_eq!(seen.learning_rates(), [1.0; 6]);
    let config = json!({"schedule": {"kind": "cosine"}, "groups": ["fc3"]});
    let failed = run(&[1.0; 3]).drive::<LrSchedule>(config).unwrap_err();
    assert_eq!(
        failed.message,
        "the optimizer has no parameter group `fc3`; there are `default`, `fc2`"
    );
    Ok(())
}

#[test]
fn the_rate_changes_where_a_metric_has_stopped_getting_better() -> std::result::Result<(), Failed> {
    let losses = &[1.0, 1.0, 1.0, 0.5, 0.75, 0.75];
    let config = json!({"schedule": {"kind": "plateau", "patience": 1, "factor": 0.5}});
    let seen = run(losses).drive::<LrSchedule>(config.clone())?;
    let rates = [1.0, 1.0, 1.0, 0.5, 0.5, 0.5].map(|rate| [rate; 2]);
    assert_eq!(seen.learning_rates(), rates.concat());
    let changes = seen.messages().iter();
    let changes: Vec<_> = changes
        .map(|message| (message.at.map(|at| at.epoch), message.text.as_str()))
        .collect();
    let what = "`loss` has stopped getting better: the rate changes";
    assert_eq!(changes, [(Some(3), what), (Some(6), what)]);
    run(losses).check_resume::<LrSchedule>(config)
}

#[test]
fn all_ranks_follow_the_metric_of_the_first() -> Result<(), Failed> {
    // A hook that runs on the first rank alone publishes it: the others don't know it.
    let config = json!({"schedule": {
        "kind": "plateau", "monitor": "score", "rule": "greater", "patience": 0, "factor": 0.5, "threshold": 0.0,
    }});
    let script = |rank| {
        let run = ScriptedRun::new().epochs(4).iterations(1);
        match rank {
            0 => run.metric(Phase::Val, "score", |epoch| {
                [1.0, 1.0, 2.0, 2.0][epoch as usize - 1]
            }),
            _ => run,
        }
    };
    for seen in ScriptedRun::drive_ranks::<LrSchedule>(&config, 2, script)? {
        assert_eq!(seen.learning_rates(), [0.1, 0.1, 0.05, 0.05]);
    }
    Ok(())
}

//! Compares the rates with PyTorch's, recorded by `tests/reference/schedules.py`.

#![allow(
    clippy::expect_used,
    reason = "a test that finds its data broken may panic"
)]

use serde_json::Value;

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

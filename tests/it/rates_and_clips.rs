//! `lr-schedule` and `grad-clip` in a run: the rates that hold, and the gradients that are stepped.

use std::f64::consts::PI;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-optimisation",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

/// One iteration an epoch, so that a table's rows are the updates'.
fn short_epochs(epochs: u64, hooks: Value) -> Value {
    let manifest = edit(tiny(), "/train/epochs", json!(epochs));
    edit(edit(manifest, "/data/train", json!(8)), "/hooks", hooks)
}

fn column(place: &Workplace, file: &str, name: &str) -> Vec<f64> {
    let text = place.read(&format!("out/{file}"));
    let mut lines = text.lines();
    let mut header = lines.next().expect("a header").split(',');
    let column = header.position(|known| known == name).expect("a column");
    let cell = |line: &str| line.split(',').nth(column).expect("a cell").parse();
    lines.map(|line| cell(line).expect("a number")).collect()
}

fn near(found: &[f64], expected: &[f64], what: &Value) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-6,
            "{what}: {found} {expected}"
        );
    }
}

fn rates(manifest: Value) -> Vec<f64> {
    let place = Workplace::new(PLUGINS);
    place.run(&manifest).expect(0, &[]);
    column(&place, "train.csv", "learning_rate")
}

fn schedule(config: &Value) -> Value {
    json!([{"hook": "lr-schedule", "config": config}, "csv"])
}

#[test]
fn rates_change_by_updates_and_by_epochs_and_know_the_run_s_length() {
    let cosine = |way: f64| 0.01 * (1.0 + (PI * way).cos()) / 2.0;
    // The first rate holds in the first update: the table has the rate at each epoch's end.
    let config = json!({"schedule": {"kind": "cosine"}});
    let expected: Vec<f64> = (0..6)
        .map(|update| cosine(f64::from(update) / 6.0))
        .collect();
    near(
        &rates(short_epochs(6, schedule(&config))),
        &expected,
        &config,
    );

    let config = json!({"warm_up": {"steps": 2, "from": 0.5}, "schedule": {"kind": "cosine"}});
    let expected = [
        0.005,
        0.0075,
        cosine(0.0),
        cosine(0.25),
        cosine(0.5),
        cosine(0.75),
    ];
    near(
        &rates(short_epochs(6, schedule(&config))),
        &expected,
        &config,
    );

    // Three iterations and two updates an epoch: the last update of each is the fourth, the second …
    let config = json!({"schedule": {"kind": "linear"}});
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let manifest = edit(manifest, "/hooks", schedule(&config));
    near(&rates(manifest), &[0.01 * 0.75, 0.01 * 0.25], &config);

    let config = json!({"by": "epoch", "schedule": {"kind": "step", "every": 1, "factor": 0.5}});
    let manifest = edit(
        edit(tiny(), "/hooks", schedule(&config)),
        "/train/epochs",
        json!(3),
    );
    near(&rates(manifest), &[0.01, 0.005, 0.0025], &config);
}

#[test]
fn a_plateau_waits_for_the_metric_and_is_reported() {
    // Nothing is learned at this rate, so nothing gets better.
    let plateau = json!({"kind": "plateau", "monitor": "train/loss", "patience": 1,
        "threshold": 100.0, "threshold_is": "absolute", "factor": 0.5});
    let config = json!({"by": "epoch", "schedule": plateau});
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&short_epochs(6, schedule(&config)));
    finished.expect(0, &["`train/loss` has stopped getting better"]);
    let found = column(&place, "train.csv", "learning_rate");
    near(&found, &[0.01, 0.01, 0.01, 0.005, 0.005, 0.0025], &config);
}

#[test]
fn groups_go_their_own_ways() {
    let groups = json!([{"name": "slow", "parameters": ["fc1.*"], "learning_rate_scale": 0.1}]);
    let manifest = |hooks: Value| {
        edit(
            edit(tiny(), "/optimizer/groups", groups.clone()),
            "/hooks",
            hooks,
        )
    };
    let hook = |groups: Value| {
        json!([{"hook": "lr-schedule", "config": {"by": "epoch", "groups": groups,
            "schedule": {"kind": "exponential", "factor": 0.5}}}, "csv", "recorder"])
    };
    // The table's rate is the default group's.
    near(
        &rates(manifest(hook(json!(null)))),
        &[0.01, 0.005],
        &json!("all"),
    );
    near(
        &rates(manifest(hook(json!(["slow"])))),
        &[0.01, 0.01],
        &json!("slow"),
    );
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(hook(json!(["fast"]))));
    finished.expect(
        3,
        &["no parameter group `fast`; there are `default`, `slow`"],
    );
}

#[test]
fn a_roll_back_goes_on_with_the_same_rates() {
    let end = json!({"hook": "asker", "priority": "LOWEST", "config":
        {"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"}});
    let save = json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter",
        "phase": "train", "what": "save_checkpoint", "text": "a", "after_iteration": 2, "once": true}});
    let back = json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter",
        "phase": "train", "what": "roll_back", "text": "a", "after_iteration": 5, "once": true}});
    let schedule = json!({"hook": "lr-schedule", "config": {"warm_up": {"steps": 3},
        "schedule": {"kind": "one-cycle"}}});
    let run = |hooks: Value| {
        let place = Workplace::new(PLUGINS);
        place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
        place.checkpoint("end")
    };
    let straight = run(json!([schedule, end]));
    let back = run(json!([schedule, save, back, end]));
    for (name, tensor) in &straight {
        assert!(back.get(name) == Some(tensor), "{name}");
    }
}

type Gradients = Vec<(String, Vec<usize>, Vec<f64>, Vec<f64>)>;

/// Name, shape, parameter and step of each parameter in one update of plain SGD at the rate 1: the
/// gradient as it was stepped; and the metric.
fn stepped(clip: Option<Value>) -> (Gradients, Option<f64>) {
    let asker = |config: Value| json!({"hook": "asker", "priority": "LOWEST", "config": config});
    let mut hooks = vec![
        asker(json!({"at": "before_run", "what": "save_checkpoint", "text": "0"})),
        asker(
            json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "1"}),
        ),
        json!("csv"),
    ];
    let is_clipped = clip.is_some();
    hooks.extend(clip.map(|config| json!({"hook": "grad-clip", "config": config})));
    let place = Workplace::new(PLUGINS);
    let manifest = short_epochs(1, Value::Array(hooks));
    place
        .run(&edit(manifest, "/optimizer/learning_rate", json!(1.0)))
        .expect(0, &[]);
    let (before, after) = (place.checkpoint("0"), place.checkpoint("1"));
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        bytes
            .chunks(4)
            .map(|bytes| f64::from(number(bytes)))
            .collect()
    };
    let mut all = Vec::new();
    for (name, (shape, bytes)) in &before {
        if let Some(own) = name.strip_prefix("parameters/") {
            let (old, new) = (numbers(bytes), numbers(&after[name].1));
            let step = old.iter().zip(&new).map(|(old, new)| old - new).collect();
            all.push((own.to_owned(), shape.clone(), old, step));
        }
    }
    let metric = is_clipped.then(|| column(&place, "train.csv", "grad_norm")[0]);
    (all, metric)
}

fn norm(numbers: &[f64], order: f64) -> f64 {
    if order == 0.0 {
        return numbers
            .iter()
            .fold(0.0, |most, number| number.abs().max(most));
    }
    let sum: f64 = numbers.iter().map(|number| number.abs().powf(order)).sum();
    sum.powf(1.0 / order)
}

fn expect(clip: Value, order: f64, change: impl Fn(&str, &[usize], &[f64], &[f64]) -> Vec<f64>) {
    let (plain, _) = stepped(None);
    let (clipped, metric) = stepped(Some(clip.clone()));
    let all: Vec<f64> = plain
        .iter()
        .flat_map(|(_, _, _, gradient)| gradient.clone())
        .collect();
    let metric = metric.expect("a metric");
    assert!(
        (metric - norm(&all, order)).abs() < 1e-4 * metric,
        "{clip}: {metric}"
    );
    let mut changed = false;
    for ((name, shape, old, gradient), (_, _, _, found)) in plain.iter().zip(&clipped) {
        let expected = change(name, shape, old, gradient);
        changed |= expected != *gradient;
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-6,
                "{clip} {name}: {found} {expected}"
            );
        }
    }
    assert!(changed, "{clip} changes something");
}

#[test]
fn gradients_are_clipped_as_the_formulas_say() {
    let (plain, _) = stepped(None);
    let all: Vec<f64> = plain
        .iter()
        .flat_map(|(_, _, _, gradient)| gradient.clone())
        .collect();
    for (order, share) in [(2.0, 0.5), (1.0, 0.25), (0.0, 0.5)] {
        let most = share * norm(&all, order);
        let clip = json!({"max_norm": most, "order": order});
        expect(clip, order, |_, _, _, gradient| {
            gradient.iter().map(|number| number * share).collect()
        });
    }
    let most = 0.5 * norm(&all, 0.0);
    expect(
        json!({"by": "value", "max_value": most}),
        2.0,
        |_, _, _, gradient| {
            gradient
                .iter()
                .map(|number| number.clamp(-most, most))
                .collect()
        },
    );
    let clip = json!({"by": "adaptive", "clipping": 0.02, "smallest": 0.01});
    expect(clip, 2.0, |_, shape, old, gradient| {
        let units = if shape.len() > 1 { shape[0] } else { 1 };
        let size = gradient.len() / units;
        let units = gradient.chunks(size).zip(old.chunks(size));
        units
            .flat_map(|(gradient, old)| {
                let limit = 0.02 * norm(old, 2.0).max(0.01);
                let factor = (limit / norm(gradient, 2.0)).min(1.0);
                gradient
                    .iter()
                    .map(|number| number * factor)
                    .collect::<Vec<_>>()
            })
            .collect()
    });
}

#[test]
fn what_is_small_enough_or_only_told_stays_as_it_is() {
    let (plain, _) = stepped(None);
    for clip in [json!({"max_norm": 1e6}), json!({"by": "none"})] {
        let (found, metric) = stepped(Some(clip.clone()));
        assert_eq!(found, plain, "{clip}");
        assert!(metric.is_some_and(|norm| norm > 0.0));
    }
}

#[test]
fn a_norm_that_is_no_number_ends_the_run_or_leaves_the_update_out() {
    // Not in the first iteration, whose gradients are audited.
    let scale = json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train",
        "what": "scale_loss", "number": 1e300, "after_iteration": 1, "once": true}});
    let run = |non_finite: &str| {
        let place = Workplace::new(PLUGINS);
        let clip = json!({"hook": "grad-clip", "config": {"non_finite": non_finite}});
        let finished = place.run(&short_epochs(3, json!([scale, clip])));
        (place, finished)
    };
    let (_, finished) = run("fail");
    finished.expect(4, &["the norm of the gradients is "]);
    let (place, finished) = run("skip");
    finished.expect(0, &[]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(record["updates"], 2);
    // It is stepped, and nothing is left of the parameters.
    let (_, finished) = run("keep");
    assert!(finished.expect(0, &[]).stdout.contains("NaN"));
}

#[test]
fn nonsense_is_refused() {
    for (hook, config, words) in [
        (
            "lr-schedule",
            json!({}),
            "exactly one of `schedule` and `chain`",
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "cosin"}}),
            "cosin",
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "step"}}),
            "every",
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "plateau", "monitor": "los"}}),
            "los",
        ),
        ("grad-clip", json!({"max_norm": 0}), "max_norm"),
        ("grad-clip", json!({"by": "size"}), "size"),
    ] {
        let place = Workplace::new(PLUGINS);
        let finished = place.run(&short_epochs(1, json!([{"hook": hook, "config": config}])));
        finished.expect_refused(words);
    }
}

//! Hooks that hold parameters and gradients: `freeze`, `prune`, `grad-noise`, `weight-constraint`,
//! `precise-batchnorm`, and `swa` with statistics of its own.

use std::collections::BTreeMap;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-optimisation",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
];

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

/// Saves after so many iterations, under their number.
fn save(iteration: u64) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train",
        "what": "save_checkpoint", "after_iteration": iteration, "once": true,
        "text": iteration.to_string()}})
}

fn save_at(at: &str, tag: &str) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config":
        {"at": at, "phase": "train", "what": "save_checkpoint", "text": tag}})
}

/// Two epochs of three iterations by a hook, saved after each.
fn manifest(hook: &str, config: &Value) -> Value {
    let hook = json!({"hook": hook, "config": config});
    let hooks: Vec<Value> = std::iter::once(hook).chain((1..=6).map(save)).collect();
    edit(
        edit(tiny(), "/optimizer/learning_rate", json!(0.1)),
        "/hooks",
        json!(hooks),
    )
}

fn residual(manifest: Value) -> Value {
    edit(
        manifest,
        "/model",
        json!({"kind": "resnet", "blocks": [1], "width": 2}),
    )
}

fn run(manifest: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(manifest);
    (place, finished)
}

fn ran(manifest: &Value) -> Workplace {
    let (place, finished) = run(manifest);
    finished.expect(0, &[]);
    place
}

/// The checkpoints after the iterations 1 to 6; that of the second stands at index 1.
fn snapshots(manifest: &Value) -> Vec<Tensors> {
    let place = ran(manifest);
    (1..=6)
        .map(|iteration: u64| place.checkpoint(&iteration.to_string()))
        .collect()
}

fn numbers(tensors: &Tensors, name: &str) -> Vec<f32> {
    let (_, bytes) = tensors.get(name).unwrap_or_else(|| panic!("no `{name}`"));
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    bytes.chunks(4).map(number).collect()
}

/// A run that is left at an iteration and gone on with has the numbers of one that is not.
fn goes_on_with_the_same_bits(manifest: &Value, from: &str) {
    let place = ran(manifest);
    let expected = place.checkpoint("6");
    let arguments = ["run", "manifest.json", "--resume", from];
    place.sconce(&arguments).expect(0, &[]);
    let found = place.checkpoint("6");
    for (name, tensor) in &expected {
        assert!(found.get(name) == Some(tensor), "{name} from {from}");
    }
}

fn refused(hook: &str, config: &Value, words: &str) {
    let (_place, finished) = run(&edit(
        tiny(),
        "/hooks",
        json!([{"hook": hook, "config": config}]),
    ));
    finished.expect_refused(words);
}

/// At which iterations a parameter changes, from the second on.
fn changes(snapshots: &[Tensors], name: &str) -> Vec<usize> {
    let pairs = snapshots.windows(2).enumerate();
    pairs
        .filter(|(_, pair)| pair[0][name] != pair[1][name])
        .map(|(index, _)| index + 2)
        .collect()
}

#[test]
fn frozen_parameters_are_trained_from_their_moment_on() {
    let (first, second) = ("parameters/fc1.weight", "parameters/fc2.weight");
    for (config, of_first, of_second) in [
        (
            json!({"parameters": ["fc1.*"]}),
            vec![],
            vec![2, 3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["*", "!fc2.*"]}),
            vec![],
            vec![2, 3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["!fc2.*"]}),
            vec![],
            vec![2, 3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["fc1.*"], "until_epoch": 1}),
            vec![4, 5, 6],
            vec![2, 3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["fc1.*"], "until_iteration": 4}),
            vec![5, 6],
            vec![2, 3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["*"], "stages": [{"iteration": 2, "parameters": ["fc2.*"]},
                {"epoch": 1, "parameters": ["fc1.weight"]}]}),
            vec![4, 5, 6],
            vec![3, 4, 5, 6],
        ),
        (
            json!({"parameters": ["*"], "until_iteration": 4, "stages":
                [{"iteration": 1, "parameters": ["fc2.*"]}]}),
            vec![5, 6],
            vec![2, 3, 4, 5, 6],
        ),
    ] {
        let snapshots = snapshots(&manifest("freeze", &config));
        assert_eq!(changes(&snapshots, first), of_first, "{config}");
        assert_eq!(changes(&snapshots, second), of_second, "{config}");
    }
}

#[test]
fn unfrozen_parameters_can_be_trained_at_a_share_of_the_rate() {
    let step = |config: Value| -> Vec<f32> {
        let snapshots = snapshots(&manifest("freeze", &config));
        let (before, after) = (&snapshots[1], &snapshots[2]);
        let name = "parameters/fc1.bias";
        let pairs = numbers(before, name).into_iter().zip(numbers(after, name));
        pairs.map(|(before, after)| after - before).collect()
    };
    let whole = step(json!({"parameters": ["fc1.bias"], "until_iteration": 2}));
    let tenth =
        json!({"parameters": ["fc1.bias"], "until_iteration": 2, "learning_rate_ratio": 0.1});
    let stage = json!({"iteration": 2, "parameters": ["fc1.bias"], "learning_rate_ratio": 0.1});
    for config in [
        tenth,
        json!({"parameters": ["fc1.bias"], "stages": [stage]}),
    ] {
        for (whole, tenth) in whole.iter().zip(step(config)) {
            assert!((whole / 10.0 - tenth).abs() < 1e-7, "{whole} {tenth}");
        }
    }
    assert!(whole.iter().any(|step| step.abs() > 1e-5));
}

#[test]
fn frozen_batch_norms_stand_still_in_what_is_asked_for() {
    for (batch_norm, scale, mean) in [
        ("freeze", false, false),
        ("track", false, true),
        ("train", true, true),
    ] {
        let config = json!({"parameters": ["*"], "batch_norm": batch_norm, "stages":
            [{"iteration": 0, "parameters": ["fc*"]}]});
        let snapshots = snapshots(&residual(manifest("freeze", &config)));
        let name = |end: &str| {
            let mut names = snapshots[0]
                .keys()
                .filter(|name| name.starts_with("parameters/"));
            let found = names.find(|name| name.ends_with(end));
            found
                .unwrap_or_else(|| panic!("no {end} in {:?}", snapshots[0].keys()))
                .clone()
        };
        let mean_name = name("running_mean");
        let scale_name = mean_name.replace("running_mean", "weight");
        assert_eq!(
            !changes(&snapshots, &scale_name).is_empty(),
            scale,
            "{batch_norm}"
        );
        assert_eq!(
            !changes(&snapshots, &mean_name).is_empty(),
            mean,
            "{batch_norm}"
        );
        assert!(
            changes(&snapshots, &name("conv1.weight")).is_empty(),
            "{batch_norm}"
        );
    }
}

#[test]
fn a_run_with_frozen_parameters_goes_on_with_the_same_bits() {
    let config = json!({"parameters": ["*"], "stages": [{"iteration": 2, "parameters": ["fc2.*"]},
        {"iteration": 4, "parameters": ["fc1.*"], "learning_rate_ratio": 0.5}]});
    let manifest = manifest("freeze", &config);
    for from in ["1", "3", "5"] {
        goes_on_with_the_same_bits(&manifest, from);
    }
}

/// The share of zeros.
fn zeros(numbers: &[f32]) -> f64 {
    numbers.iter().filter(|&&number| number == 0.0).count() as f64 / numbers.len() as f64
}

#[test]
fn the_smallest_numbers_go_and_stay_gone() {
    let of = |config: Value| -> (Vec<f64>, Vec<f64>) {
        let snapshots = snapshots(&manifest("prune", &config));
        let shares = |name: &str| {
            snapshots
                .iter()
                .map(|all| zeros(&numbers(all, name)))
                .collect()
        };
        (
            shares("parameters/fc1.weight"),
            shares("parameters/fc2.weight"),
        )
    };
    let near = |found: &[f64], expected: [f64; 6], what: &str| {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 0.01,
                "{what}: {found} {expected}"
            );
        }
    };
    let (first, second) = of(json!({"amount": 0.75, "schedule": "constant", "begin": 2}));
    near(&first, [0.0, 0.75, 0.75, 0.75, 0.75, 0.75], "constant");
    near(&second, [0.0, 0.75, 0.75, 0.75, 0.75, 0.75], "constant");
    let (linear, _) = of(json!({"amount": 0.8, "schedule": "linear", "begin": 1, "end": 5}));
    near(&linear, [0.0, 0.2, 0.4, 0.6, 0.8, 0.8], "linear");
    // 0.8 - 0.6 (1 - t / 4)^3, and only in every second update.
    let config = json!({"amount": 0.8, "initial": 0.2, "begin": 1, "end": 5, "every": 2});
    near(&of(config).0, [0.2, 0.2, 0.725, 0.725, 0.8, 0.8], "cubic");
    // The third iteration's checkpoint is taken before the epoch's end.
    let (by_epoch, _) = of(json!({"amount": 0.6, "by": "epoch", "schedule": "constant"}));
    near(&by_epoch, [0.0, 0.0, 0.0, 0.6, 0.6, 0.6], "by epoch");
    let (only, other) =
        of(json!({"amount": 0.5, "schedule": "constant", "parameters": ["fc2.weight"]}));
    near(&only, [0.0; 6], "names");
    near(&other, [0.5; 6], "names");
}

#[test]
fn what_goes_is_smaller_than_what_stays() {
    let plain = snapshots(&manifest("prune", &json!({"amount": 0.0})));
    let largest_gone = |all: &Tensors, names: &[&str]| -> (f32, f32) {
        let (mut gone, mut left) = (0.0_f32, f32::INFINITY);
        for name in names {
            for (before, after) in numbers(&plain[0], name).iter().zip(numbers(all, name)) {
                if after == 0.0 {
                    gone = gone.max(before.abs());
                } else {
                    left = left.min(before.abs());
                }
            }
        }
        (gone, left)
    };
    let both = ["parameters/fc1.weight", "parameters/fc2.weight"];
    let global = snapshots(&manifest(
        "prune",
        &json!({"amount": 0.5, "schedule": "constant", "global": true}),
    ));
    let (gone, left) = largest_gone(&global[0], &both);
    assert!(0.0 < gone && gone <= left, "{gone} {left}");
    let shares = both.map(|name| zeros(&numbers(&global[0], name)));
    assert!(
        (shares[0] - shares[1]).abs() > 0.05,
        "the second layer's are larger: {shares:?}"
    );
    let local = snapshots(&manifest(
        "prune",
        &json!({"amount": 0.5, "schedule": "constant"}),
    ));
    for name in both {
        let (gone, left) = largest_gone(&local[0], &[name]);
        assert!(0.0 < gone && gone <= left, "{gone} {left}");
    }
    // Whole rows: two of the eight units of the first layer.
    let rows = snapshots(&manifest(
        "prune",
        &json!({"amount": 0.25, "schedule": "constant", "structure": "row"}),
    ));
    let weight = numbers(&rows[0], both[0]);
    let gone: Vec<bool> = weight
        .chunks(784)
        .map(|row| row.iter().all(|&number| number == 0.0))
        .collect();
    assert_eq!(gone.iter().filter(|gone| **gone).count(), 2);
    assert!((zeros(&weight) - 0.25).abs() < 1e-3);
}

#[test]
fn sparsity_is_reported_and_masks_go_on_after_a_resume() {
    let config = json!({"amount": 0.9, "end": 5, "publish": "gone"});
    let mut all = manifest("prune", &config);
    if let Some(hooks) = all["hooks"].as_array_mut() {
        hooks.push(json!({"hook": "csv", "config": {"variables": ["gone"]}}));
    }
    let place = ran(&all);
    let table = place.read("out/train.csv");
    assert!(
        table
            .lines()
            .nth(2)
            .is_some_and(|line| line.contains("0.9")),
        "{table}"
    );
    for from in ["2", "4"] {
        goes_on_with_the_same_bits(&manifest("prune", &config), from);
    }
}

/// The steps of plain SGD at the rate 1 in the first update, by name: the gradients.
fn gradients(hooks: &[Value], seed: u64) -> BTreeMap<String, Vec<f32>> {
    let hooks: Vec<Value> = hooks
        .iter()
        .cloned()
        .chain([save_at("before_run", "start"), save(1)])
        .collect();
    let manifest = edit(edit(tiny(), "/hooks", json!(hooks)), "/seed", json!(seed));
    let place = ran(&edit(manifest, "/optimizer/learning_rate", json!(1.0)));
    let (before, after) = (place.checkpoint("start"), place.checkpoint("1"));
    let names = before.keys().filter(|name| name.starts_with("parameters/"));
    names
        .map(|name| {
            let pairs = numbers(&before, name)
                .into_iter()
                .zip(numbers(&after, name));
            (
                name.clone(),
                pairs.map(|(before, after)| before - after).collect(),
            )
        })
        .collect()
}

#[test]
fn noise_has_the_variance_asked_for_where_it_is_asked_for() {
    let noise = |config: Value| json!({"hook": "grad-noise", "config": config});
    let plain = gradients(&[], 1);
    let with_noise = gradients(
        &[noise(json!({"eta": 0.25, "parameters": ["fc1.weight"]}))],
        1,
    );
    let name = "parameters/fc1.weight";
    let added: Vec<f64> = with_noise[name]
        .iter()
        .zip(&plain[name])
        .map(|(after, before)| f64::from(after - before))
        .collect();
    let count = added.len() as f64;
    let mean = added.iter().sum::<f64>() / count;
    let variance = added.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    assert!(
        mean.abs() < 0.03 && (variance - 0.25).abs() < 0.02,
        "{mean} {variance}"
    );
    assert_eq!(
        plain["parameters/fc2.weight"],
        with_noise["parameters/fc2.weight"]
    );
    // Keyed by the seed; none of it before and behind its time.
    let again = gradients(
        &[noise(json!({"eta": 0.25, "parameters": ["fc1.weight"]}))],
        1,
    );
    assert_eq!(with_noise, again);
    for config in [
        json!({"eta": 0.25, "begin": 1}),
        json!({"eta": 0.25, "end": 0}),
        json!({"eta": 0.0}),
    ] {
        assert_eq!(gradients(&[noise(config)], 1), plain);
    }
    // It fades: with such a gamma nothing is left of it in the second update.
    let end = |config: Value| snapshots(&manifest("grad-noise", &config)).swap_remove(5);
    let faded = end(json!({"eta": 0.25, "gamma": 1000.0}));
    assert!(faded == end(json!({"eta": 0.25, "end": 1})));
    assert!(faded[name] != end(json!({"eta": 0.25}))[name]);
    goes_on_with_the_same_bits(&manifest("grad-noise", &json!({"eta": 0.01})), "3");
}

#[test]
fn parameters_are_held_within_their_bounds_after_every_update() {
    let name = "parameters/fc1.weight";
    let norms = |numbers: &[f32], order: i32| -> Vec<f64> {
        let power = |x: &f32| f64::from(x.abs()).powi(order);
        let rows = numbers.chunks(784);
        rows.map(|row| {
            row.iter()
                .map(power)
                .sum::<f64>()
                .powf(1.0 / f64::from(order))
        })
        .collect()
    };
    let held = |config: Value| snapshots(&manifest("weight-constraint", &config));
    for all in held(json!({"kind": "max-norm", "max": 0.25})) {
        assert!(
            norms(&numbers(&all, name), 2)
                .iter()
                .all(|norm| *norm < 0.25 + 1e-5)
        );
    }
    for all in held(json!({"kind": "unit-norm", "order": 1})) {
        assert!(
            norms(&numbers(&all, name), 1)
                .iter()
                .all(|norm| (norm - 1.0).abs() < 1e-4)
        );
    }
    for all in held(json!({"kind": "min-max-norm", "min": 3.0, "max": 4.0})) {
        assert!(
            norms(&numbers(&all, name), 2)
                .iter()
                .all(|norm| (3.0 - 1e-4..4.0 + 1e-4).contains(norm))
        );
    }
    for all in held(json!({"kind": "non-negative", "parameters": ["fc1.*"]})) {
        assert!(numbers(&all, name).iter().all(|number| *number >= 0.0));
        assert!(
            numbers(&all, "parameters/fc2.weight")
                .iter()
                .any(|number| *number < 0.0)
        );
    }
    // Columns, half of the way, and only after every second update.
    let way =
        held(json!({"kind": "min-max-norm", "min": 0.0, "max": 0.25, "rate": 0.5, "every": 2}));
    let plain = snapshots(&manifest("weight-constraint", &json!({"max": 100.0})));
    assert_eq!(way[0][name], plain[0][name]);
    for (found, before) in norms(&numbers(&way[1], name), 2)
        .iter()
        .zip(norms(&numbers(&plain[1], name), 2))
    {
        assert!(
            (found - f64::midpoint(before, 0.25)).abs() < 1e-4,
            "{found} {before}"
        );
    }
    let columns = held(json!({"max": 0.05, "axis": 1}));
    let weight = numbers(&columns[5], name);
    for column in 0..784 {
        let squares: f32 = weight.iter().skip(column).step_by(784).map(|x| x * x).sum();
        assert!(squares.sqrt() < 0.05 + 1e-5);
    }
    goes_on_with_the_same_bits(&manifest("weight-constraint", &json!({"max": 0.25})), "3");
}

/// The first running mean.
fn mean_name(tensors: &Tensors) -> String {
    let mut names = tensors
        .keys()
        .filter(|name| name.starts_with("parameters/"));
    names
        .find(|name| name.ends_with("running_mean"))
        .expect("a batch norm")
        .clone()
}

#[test]
fn statistics_are_those_of_the_samples_asked_for_when_it_is_asked_for() {
    let end = |config: Option<Value>| {
        let mut hooks = vec![
            save_at("after_cycle", "cycle"),
            save_at("after_loop", "end"),
        ];
        hooks.extend(config.map(|config| json!({"hook": "precise-batchnorm", "config": config})));
        let place = ran(&residual(edit(
            edit(tiny(), "/hooks", json!(hooks)),
            "/optimizer/learning_rate",
            json!(0.5),
        )));
        let (cycle, end) = (place.checkpoint("cycle"), place.checkpoint("end"));
        let name = mean_name(&end);
        let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
        (
            numbers(&cycle, &name),
            numbers(&end, &name),
            record["metrics"].clone(),
        )
    };
    let (plain_cycle, plain_end, plain_metrics) = end(None);
    assert_eq!(plain_cycle, plain_end);
    let (cycle, all_end, metrics) = end(Some(json!({"samples": 0})));
    assert_ne!(cycle, plain_cycle);
    assert_eq!(cycle, all_end, "the same samples and parameters");
    assert_ne!(metrics["val"], plain_metrics["val"]);
    assert_eq!(metrics["train"], plain_metrics["train"]);
    // More than there are is all; fewer are others.
    assert_eq!(end(Some(json!({}))).0, cycle);
    assert_ne!(end(Some(json!({"samples": 8}))).0, cycle);
    let (cycle, at_end, metrics) = end(Some(json!({"samples": 0, "before": [], "at_end": true})));
    assert_eq!((&cycle, &at_end), (&plain_cycle, &all_end));
    assert_eq!(metrics["val"], plain_metrics["val"]);
    assert_ne!(metrics["test"], plain_metrics["test"]);
    let (_, at_end, metrics) = end(Some(
        json!({"samples": 0, "before": ["test"], "at_end": false}),
    ));
    assert_eq!(at_end, plain_end);
    assert_ne!(metrics["test"], plain_metrics["test"]);
    let (cycle, ..) = end(Some(json!({"every": 3, "at_end": false})));
    assert_eq!(cycle, plain_cycle, "two epochs only");
    goes_on_with_the_same_bits(&residual(manifest("precise-batchnorm", &json!({}))), "3");
    let (_place, finished) = run(&manifest("precise-batchnorm", &json!({})));
    finished.expect(0, &["no batch norm"]);
}

#[test]
fn swa_has_statistics_of_its_own_where_that_is_asked_for() {
    let end = |config: Value| {
        let hooks = json!([{"hook": "swa", "config": config}, save_at("after_cycle", "cycle"), save_at("after_loop", "end")]);
        let place = ran(&residual(edit(
            edit(tiny(), "/hooks", hooks),
            "/optimizer/learning_rate",
            json!(0.5),
        )));
        (place.checkpoint("cycle"), place.checkpoint("end"))
    };
    let (averaged, averaged_end) = end(json!({"start_epoch": 0}));
    let (computed, computed_end) = end(json!({"start_epoch": 0, "recompute_statistics": true}));
    let name = mean_name(&averaged);
    let published = name.replacen("parameters/", "published/swa/", 1);
    assert_ne!(averaged[&published], computed[&published]);
    assert_eq!(averaged[&name], computed[&name], "the training's own stay");
    let weight = published.replace("running_mean", "weight");
    assert_eq!(averaged[&weight], computed[&weight]);
    // At the end they replace the parameters: computed anew there too, from the same samples.
    assert_ne!(averaged_end[&name], computed_end[&name]);
    let (mean, again) = (
        numbers(&computed_end, &published),
        numbers(&computed_end, &name),
    );
    for (mean, again) in mean.iter().zip(again) {
        assert!((mean - again).abs() < 1e-5, "{mean} {again}");
    }
    let (few, _) =
        end(json!({"start_epoch": 0, "recompute_statistics": true, "statistics_samples": 8}));
    assert_ne!(few[&published], computed[&published]);
}

#[test]
fn nonsense_is_refused() {
    for (hook, config, words) in [
        ("freeze", json!({}), "parameters"),
        (
            "freeze",
            json!({"parameters": ["fc9.*"]}),
            "`fc9.*` chooses nothing",
        ),
        (
            "freeze",
            json!({"parameters": ["*", "!fc9.*"]}),
            "`!fc9.*` takes nothing away",
        ),
        (
            "freeze",
            json!({"parameters": ["fc1.*", "!*"]}),
            "take everything away",
        ),
        (
            "freeze",
            json!({"parameters": ["fc1.wieght"]}),
            "did you mean `fc1.weight`?",
        ),
        ("freeze", json!({"parameters": ["*"], "until": 3}), "until"),
        (
            "freeze",
            json!({"parameters": ["*"], "until_epoch": 1, "until_iteration": 1}),
            "not both",
        ),
        (
            "freeze",
            json!({"parameters": ["*"], "stages": [{"parameters": ["*"]}]}),
            "needs an `epoch`",
        ),
        ("prune", json!({"amount": 1.5}), "amount"),
        (
            "prune",
            json!({"initial": 0.9}),
            "`initial` must be from 0 to `amount`",
        ),
        (
            "prune",
            json!({"begin": 5, "end": 3}),
            "`end` must not be before",
        ),
        ("grad-noise", json!({"eta": -1}), "eta"),
        (
            "grad-noise",
            json!({"parameters": ["[a"]}),
            "not a name pattern",
        ),
        ("weight-constraint", json!({"kind": "maxnorm"}), "maxnorm"),
        (
            "weight-constraint",
            json!({"min": 3.0, "max": 2.0}),
            "`min` must be from 0 to `max`",
        ),
        ("precise-batchnorm", json!({"every": 0}), "every"),
        ("precise-batchnorm", json!({"before": ["train"]}), "train"),
    ] {
        refused(hook, &config, words);
    }
}

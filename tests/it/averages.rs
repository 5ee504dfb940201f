//! `ema` and `swa`: what they average is what their formulas say, and evaluations see it.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &["sconce-plugin-optimisation", "sconce-fixture-faults"];
const ITERATIONS: u64 = 6;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

/// Saves a checkpoint before the first iteration and after each, under its number.
fn snapshots() -> Vec<Value> {
    let asker = |config| json!({"hook": "asker", "priority": "LOWEST", "config": config});
    let first = json!({"at": "before_run", "what": "save_checkpoint", "text": "0"});
    let rest = (1..=ITERATIONS).map(|iteration| {
        asker(
            json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "once": true,
            "after_iteration": iteration, "text": iteration.to_string()}),
        )
    });
    std::iter::once(asker(first)).chain(rest).collect()
}

/// Two epochs of three iterations with a batch norm, at a rate that moves something.
fn manifest(hooks: Vec<Value>) -> Value {
    let model = json!({"kind": "resnet", "blocks": [1], "width": 2});
    let manifest = edit(tiny(), "/model", model);
    let manifest = edit(manifest, "/optimizer/learning_rate", json!(0.5));
    edit(manifest, "/hooks", Value::Array(hooks))
}

fn run(hooks: Vec<Value>) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(hooks));
    (place, finished)
}

fn with_snapshots(hook: Value) -> Vec<Tensors> {
    let (place, finished) = run([vec![hook], snapshots()].concat());
    finished.expect(0, &[]);
    (0..=ITERATIONS)
        .map(|iteration| place.checkpoint(&iteration.to_string()))
        .collect()
}

/// The numbers of an `f32` tensor.
fn numbers(tensors: &Tensors, name: &str) -> Option<Vec<f32>> {
    let (_, bytes) = tensors.get(name)?;
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    Some(bytes.chunks(4).map(number).collect())
}

/// The averages of a parameter after each iteration, where `decay(iteration)` says how much of the
/// old one is kept, and `None` that nothing is averaged.
fn averaged(
    snapshots: &[Tensors],
    parameter: &str,
    begin: usize,
    decay: impl Fn(usize) -> Option<f64>,
) -> Vec<Option<Vec<f32>>> {
    let mut average: Option<Vec<f32>> = None;
    let mut all = Vec::new();
    for (iteration, snapshot) in snapshots.iter().enumerate() {
        let now = numbers(snapshot, &format!("parameters/{parameter}")).expect("a parameter");
        if iteration == begin {
            average = Some(now);
        } else if let (Some(average), Some(decay)) = (&mut average, decay(iteration)) {
            for (average, now) in average.iter_mut().zip(now) {
                *average += (1.0 - decay) as f32 * (now - *average);
            }
        }
        all.push(average.clone());
    }
    all
}

/// How much of the old average an iteration keeps; `None` where nothing is averaged.
type Decay = Box<dyn Fn(usize) -> Option<f64>>;

const WEIGHT: &str = "conv1.weight";

/// Some parameter and some buffer of a batch norm.
fn names(snapshot: &Tensors) -> (String, String) {
    let of = |end: &str| {
        let mut names = snapshot.keys();
        let name = names.find(|name| name.starts_with("parameters/") && name.ends_with(end));
        let name = name.unwrap_or_else(|| panic!("no {end} in {:?}", snapshot.keys()));
        name.replacen("parameters/", "", 1)
    };
    (of(WEIGHT), of("running_mean"))
}

#[test]
fn every_option_of_ema_averages_as_its_formula_says() {
    let ratio = |n: usize| (1.0 + n as f64) / (10.0 + n as f64);
    let cases: Vec<(Value, usize, Decay)> = vec![
        // The default warms up: 0.1 in the first averaging.
        (json!({}), 0, Box::new(move |i| Some(ratio(i - 1)))),
        (
            json!({"decay": 0.2}),
            0,
            Box::new(move |i| Some(ratio(i - 1).min(0.2))),
        ),
        (
            json!({"decay": 0.75, "warm_up": "none"}),
            0,
            Box::new(|_| Some(0.75)),
        ),
        (
            json!({"decay": 0.9, "warm_up": "exponential", "warm_up_updates": 3.5}),
            0,
            Box::new(|i| Some(0.9 * (1.0 - (-(i as f64) / 3.5).exp()))),
        ),
        (
            json!({"decay": 0.75, "warm_up": "none", "every": 2}),
            0,
            Box::new(|i| (i % 2 == 0).then_some(0.75)),
        ),
        (
            json!({"decay": 0.75, "warm_up": "none", "begin": 2}),
            2,
            Box::new(|_| Some(0.75)),
        ),
        (json!({"begin": 2, "every": 3}), 2, {
            Box::new(move |i| (i == 5).then(|| ratio(0)))
        }),
    ];
    for (config, begin, decay) in cases {
        let snapshots = with_snapshots(json!({"hook": "ema", "config": config}));
        let (weight, buffer) = names(&snapshots[0]);
        let expected = averaged(&snapshots, &weight, begin, &decay);
        for (iteration, (snapshot, expected)) in snapshots.iter().zip(expected).enumerate() {
            let found = numbers(snapshot, &format!("published/ema/{weight}"));
            assert_eq!(found, expected, "{config}, iteration {iteration}");
        }
        // Buffers are copied unless one says otherwise, whenever there is an averaging.
        let last_averaging = (begin..=6)
            .rev()
            .find(|&i| i == begin || decay(i).is_some());
        let last_averaging = &snapshots[last_averaging.expect("one")];
        assert_eq!(
            snapshots[6].get(&format!("published/ema/{buffer}")),
            last_averaging.get(&format!("parameters/{buffer}")),
            "{config}"
        );
    }
}

#[test]
fn ema_averages_by_epochs_buffers_too_and_under_a_name_of_ones_own() {
    let config = json!({"by": "epoch", "decay": 0.75, "warm_up": "none", "buffers": "average",
        "set": "mean"});
    let snapshots = with_snapshots(json!({"hook": "ema", "config": config}));
    let (weight, buffer) = names(&snapshots[0]);
    for name in [weight, buffer] {
        // The third iteration's checkpoint is taken before the epoch's end.
        let expected = averaged(&snapshots, &name, 0, |i| (i == 3).then_some(0.75));
        let found = numbers(&snapshots[4], &format!("published/mean/{name}"));
        assert_eq!(found, expected[4], "{name}");
    }
}

fn metrics(place: &Workplace, phase: &str) -> Value {
    record(place)["metrics"][phase].take()
}

fn record(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/run.json")).expect("JSON")
}

/// What `sconce eval` says of some tensors of a checkpoint.
fn evaluated(place: &Workplace, tensors: &Tensors, prefix: &str, phase: &str) -> Value {
    use safetensors::tensor::{Dtype, TensorView};
    let (mut names, mut views) = (Vec::new(), Vec::new());
    for (name, (shape, bytes)) in tensors {
        if let Some(name) = name.strip_prefix(prefix) {
            let count: usize = shape.iter().product();
            let dtype = match bytes.len() / count.max(1) {
                8 => Dtype::I64,
                4 => Dtype::F32,
                other => panic!("elements of {other} bytes"),
            };
            names.push(name);
            views.push(TensorView::new(dtype, shape.clone(), bytes).expect("a tensor"));
        }
    }
    let bytes = safetensors::serialize(names.into_iter().zip(views), None).expect("a file");
    std::fs::write(place.path("some.safetensors"), bytes).expect("written");
    let arguments = ["eval", "manifest.json", "--json", "--phase", phase];
    let checkpoint = ["--checkpoint", "some.safetensors"];
    let finished = place.sconce(&[&arguments[..], &checkpoint].concat());
    let printed = finished.expect(0, &[]).stdout;
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    found["metrics"].clone()
}

fn save_last() -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config":
        {"at": "after_cycle", "what": "save_checkpoint", "text": "end"}})
}

#[test]
fn evaluations_see_the_average_where_they_should() {
    let ema = |config: Value| json!({"hook": "ema", "config": config});
    for (config, val, test) in [
        (json!({"decay": 0.5}), "published/ema/", "published/ema/"),
        (
            json!({"decay": 0.5, "evaluate": []}),
            "parameters/",
            "parameters/",
        ),
        (
            json!({"decay": 0.5, "evaluate": ["test"]}),
            "parameters/",
            "published/ema/",
        ),
        // Not yet begun: there is nothing else to see.
        (json!({"begin": 100}), "parameters/", "parameters/"),
    ] {
        let (place, finished) = run(vec![ema(config.clone()), save_last()]);
        finished.expect(0, &[]);
        let end = place.checkpoint("end");
        // Weights that were tested are those that are kept; results of others are given beside theirs.
        let validated = if val == test {
            metrics(&place, "val")
        } else {
            assert_eq!(metrics(&place, "val"), Value::Null, "{config}");
            record(&place)["last"]["val"]["metrics"].take()
        };
        assert_eq!(validated, evaluated(&place, &end, val, "val"), "{config}");
        assert_eq!(
            metrics(&place, "test"),
            evaluated(&place, &end, test, "test"),
            "{config}"
        );
    }
}

#[test]
fn at_the_end_the_average_can_replace_the_parameters() {
    let config = json!({"decay": 0.5, "replace_at_end": true, "evaluate": []});
    let (place, finished) = run(vec![json!({"hook": "ema", "config": config}), save_last()]);
    finished.expect(0, &[]);
    let end = place.checkpoint("end");
    let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
    assert!(!weights.is_empty());
    for (name, view) in weights.tensors() {
        assert_eq!(
            view.data(),
            end[&format!("published/ema/{name}")].1,
            "{name}"
        );
    }
    let expected = evaluated(&place, &end, "published/ema/", "test");
    assert_eq!(metrics(&place, "test"), expected);
}

#[test]
fn a_roll_back_goes_on_with_the_same_averages() {
    let hooks = || {
        vec![
            json!({"hook": "ema", "config": {"every": 2}}),
            json!({"hook": "swa",
        "config": {"start": 0.0, "learning_rate": 0.1, "anneal_epochs": 3, "evaluate": []}}),
        ]
    };
    let (straight, finished) = run([hooks(), vec![save_last()]].concat());
    finished.expect(0, &[]);
    let expected = straight.checkpoint("end");
    for (saved_at, from) in [("after_iter", 1), ("after_iter", 3), ("after_cycle", 0)] {
        let save = json!({"at": saved_at, "phase": "train", "what": "save_checkpoint",
            "text": "here", "after_iteration": from, "once": true});
        let back = json!({"at": "after_iter", "phase": "train", "what": "roll_back",
            "text": "here", "after_iteration": 5, "once": true});
        let askers = [save, back]
            .map(|config| json!({"hook": "asker", "priority": "LOWEST", "config": config}));
        let (place, finished) = run([hooks(), askers.to_vec(), vec![save_last()]].concat());
        finished.expect(0, &[]);
        let found = place.checkpoint("end");
        for (name, tensor) in &expected {
            if !name.starts_with("hooks/asker") {
                assert!(
                    found.get(name) == Some(tensor),
                    "{name} after {saved_at} {from}"
                );
            }
        }
    }
}

/// The parameters at the end of each of six epochs of one iteration.
fn epochs(swa: Value) -> (Vec<Tensors>, Workplace) {
    let place = Workplace::new(PLUGINS);
    let manifest = manifest([vec![swa], snapshots()].concat());
    let manifest = edit(manifest, "/train/epochs", json!(6));
    let manifest = edit(manifest, "/data/train", json!(8));
    place.run(&manifest).expect(0, &[]);
    let snapshots = (0..=ITERATIONS).map(|epoch| place.checkpoint(&epoch.to_string()));
    (snapshots.collect(), place)
}

#[test]
fn swa_is_the_mean_of_the_last_epochs() {
    for (config, averaged) in [
        (json!({}), vec![5, 6]),
        (json!({"start": 0.5}), vec![4, 5, 6]),
        (json!({"start_epoch": 1, "every": 2}), vec![2, 4, 6]),
        (json!({"start_epoch": 5, "buffers": "copy"}), vec![6]),
        (
            json!({"start_epoch": 3, "buffers": "copy", "set": "mean"}),
            vec![4, 5, 6],
        ),
    ] {
        let (epochs, place) = epochs(json!({"hook": "swa", "config": config}));
        let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
        let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
        let (weight, buffer) = names(&epochs[0]);
        let copied = config["buffers"] == "copy";
        for (name, averaged) in [
            (&weight, averaged.clone()),
            (&buffer, if copied { vec![6] } else { averaged.clone() }),
        ] {
            let of = |epoch: &usize| {
                numbers(&epochs[*epoch], &format!("parameters/{name}")).expect("numbers")
            };
            let all: Vec<Vec<f32>> = averaged.iter().map(of).collect();
            let found = weights.tensor(name).expect("it is there");
            let found: Vec<f32> = (found.data().chunks(4))
                .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")))
                .collect();
            for (index, found) in found.iter().enumerate() {
                let sum: f64 = all.iter().map(|epoch| f64::from(epoch[index])).sum();
                let mean = sum / all.len() as f64;
                let error = (f64::from(*found) - mean).abs();
                assert!(
                    error <= 1e-6 * mean.abs().max(1e-3),
                    "{config} {name}: {found} {mean}"
                );
            }
        }
    }
    // Where one does not want it, the parameters stay. The mean is what was measured, and they are beside it.
    let (epochs, place) =
        epochs(json!({"hook": "swa", "config": {"start": 0.5, "replace_at_end": false}}));
    let weights = std::fs::read(place.path("out/parameters.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
    let (weight, _) = names(&epochs[0]);
    let found = weights
        .tensor(&weight)
        .expect("it is there")
        .data()
        .to_vec();
    assert_eq!(found, epochs[6][&format!("parameters/{weight}")].1);
}

#[test]
fn swa_anneals_the_learning_rate() {
    let rates = |config: Value| -> Vec<f64> {
        let place = Workplace::new(&["sconce-plugin-optimisation", "sconce-plugin-csv"]);
        let hooks = vec![json!({"hook": "swa", "config": config}), json!("csv")];
        let manifest = edit(manifest(hooks), "/train/epochs", json!(6));
        place
            .run(&edit(manifest, "/data/train", json!(8)))
            .expect(0, &[]);
        let text = place.read("out/train.csv");
        let mut lines = text.lines();
        let header = lines.next().expect("a header").split(',');
        let column = header
            .clone()
            .position(|name| name == "learning_rate")
            .expect("a rate");
        lines
            .map(|line| {
                line.split(',')
                    .nth(column)
                    .expect("a cell")
                    .parse()
                    .expect("a number")
            })
            .collect()
    };
    let cosine = |way: f64| 0.1 + 0.4 * (1.0 + (PI * way).cos()) / 2.0;
    for (config, expected) in [
        (json!({"start": 0.5}), vec![0.5; 6]),
        (
            json!({"start": 0.5, "learning_rate": 0.1, "anneal_epochs": 0}),
            vec![0.5, 0.5, 0.5, 0.1, 0.1, 0.1],
        ),
        (
            json!({"start_epoch": 1, "learning_rate": 0.1, "anneal_epochs": 2, "anneal": "linear"}),
            vec![0.5, 0.5, 0.3, 0.1, 0.1, 0.1],
        ),
        (
            json!({"start_epoch": 1, "learning_rate": 0.1, "anneal_epochs": 4}),
            vec![0.5, 0.5, cosine(0.25), cosine(0.5), cosine(0.75), 0.1],
        ),
    ] {
        let found = rates(config.clone());
        assert_eq!(found.len(), expected.len(), "{config}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-6,
                "{config}: {found} {expected}"
            );
        }
    }
}

#[test]
fn nonsense_is_refused_and_two_averages_do_not_meet() {
    for (hook, config, words) in [
        ("ema", json!({"decay": 1.5}), "decay"),
        ("ema", json!({"every": 0}), "every"),
        ("ema", json!({"warm_up_updates": 0}), "warm_up_updates"),
        ("ema", json!({"set": ""}), "`set` must have 1 to 64 bytes"),
        ("swa", json!({"start": -0.5}), "start"),
        ("swa", json!({"learning_rate": -1}), "learning_rate"),
    ] {
        let (_, finished) = run(vec![json!({"hook": hook, "config": config})]);
        finished.expect_refused(words);
    }
    let (_, finished) = run(vec![json!({"hook": "swa", "config": {"start_epoch": 2}})]);
    finished.expect(0, &["nothing will be averaged"]);
    // Each has a set of its own; only one of them can be seen.
    let slow = json!({"hook": "ema", "name": "slow", "config": {"decay": 0.999, "evaluate": []}});
    let (place, finished) = run(vec![json!("ema"), slow, save_last()]);
    finished.expect(0, &[]);
    let end = place.checkpoint("end");
    assert!(
        end.contains_key("published/ema/fc.weight") && end.contains_key("published/slow/fc.weight")
    );
    // Two that want to be seen are refused before anything is trained, not three quarters through.
    let own = |evaluate: Value| json!({"hook": "swa", "config": {"evaluate": evaluate}});
    let replacing = json!({"hook": "ema", "config": {"evaluate": [], "replace_at_end": true}});
    for (hooks, words) in [
        (
            vec![json!("ema"), json!({"hook": "ema", "name": "second"})],
            [
                "the hooks `ema` and `second` both want the parameters' place in the phase `val`",
                "leave `val` out of `evaluate`",
            ],
        ),
        (
            vec![json!("ema"), json!("swa")],
            [
                "the hooks `ema` and `swa` both want the parameters' place in the phase `val`",
                "leave `val` out of `evaluate`",
            ],
        ),
        (
            vec![own(json!(["test"])), json!("ema")],
            [
                "the hooks `swa` and `ema` both want the parameters' place in the phase `test`",
                "leave `test` out of `evaluate`",
            ],
        ),
        (
            vec![replacing, own(json!([]))],
            [
                "the hooks `ema` and `swa` both want to replace the parameters",
                "set `replace_at_end` to false",
            ],
        ),
    ] {
        let (place, finished) = run(hooks);
        let finished = finished.expect(3, &words);
        assert!(finished.stderr.contains("hooks[1]"), "{}", finished.stderr);
        assert!(!place.path("out/run.json").exists(), "nothing is trained");
    }
}

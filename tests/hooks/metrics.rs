//! `compute-stats`, `accumulate`, `classification`, `predictions`, `output-mask`, `plot-lines`.

#![expect(
    clippy::float_cmp,
    reason = "numbers that are copied or counted are the very same"
)]

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-metrics",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
    "sconce-fixture-giver",
    "sconce-fixture-recorder",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

fn done(manifest: Value, hooks: Value) -> Workplace {
    let (place, finished) = run(manifest, hooks);
    finished.expect(0, &[]);
    place
}

/// The cells of a table: a header and rows.
fn table(place: &Workplace, file: &str) -> Vec<Vec<String>> {
    let text = place.read(&format!("out/{file}"));
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    let table: Vec<Vec<String>> = text.lines().map(cells).collect();
    assert!(table.len() > 1, "{file} has a header and nothing else");
    table
}

/// A column of a table.
fn column(place: &Workplace, file: &str, name: &str) -> Vec<f64> {
    let table = table(place, file);
    let at = table[0].iter().position(|known| known == name);
    let at = at.unwrap_or_else(|| panic!("no {name} in {:?}", table[0]));
    let rows = table[1..].iter();
    rows.map(|row| row[at].parse().expect("a number")).collect()
}

/// Shape and bytes of a file of NumPy's, and the code of its type.
fn npy(place: &Workplace, file: &str) -> (String, Vec<usize>, Vec<u8>) {
    let bytes = fs::read(place.path(&format!("out/{file}"))).expect("the file");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + length]).expect("text");
    let between = |from: &str, to: &str| {
        let (_, behind) = header.split_once(from).expect("a key");
        behind.split_once(to).expect("its end").0.to_owned()
    };
    let sizes = between("'shape': (", ")");
    let sizes = sizes
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    let shape = sizes.map(|size| size.parse().expect("a size")).collect();
    (
        between("'descr': '", "'"),
        shape,
        bytes[10 + length..].to_vec(),
    )
}

fn floats(place: &Workplace, file: &str) -> (Vec<usize>, Vec<f64>) {
    let (kind, shape, bytes) = npy(place, file);
    assert_eq!(kind, "<f4");
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    (
        shape,
        bytes
            .chunks(4)
            .map(|bytes| f64::from(number(bytes)))
            .collect(),
    )
}

fn whole(place: &Workplace, file: &str) -> Vec<u32> {
    let (kind, _, bytes) = npy(place, file);
    assert_eq!(kind, "<u4");
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    bytes.chunks(4).map(number).collect()
}

#[track_caller]
fn near(found: f64, expected: f64) {
    let is_near = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
    assert!(is_near, "{found} {expected}");
}

/// The place of the highest of ten scores.
fn highest(scores: &[f64]) -> usize {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores
        .iter()
        .position(|score| *score == best)
        .expect("one of them")
}

fn collect(config: Value) -> Value {
    let mut whole = json!({"save": "npy", "publish": false});
    for (key, value) in config.as_object().expect("an object") {
        whole[key] = value.clone();
    }
    json!({"hook": "accumulate", "config": whole})
}

const ALL: [&str; 3] = ["train", "val", "test"];

#[test]
fn statistics_are_those_of_all_values_of_a_pass() {
    let aggregates = [
        "mean",
        "std",
        "var",
        "min",
        "max",
        "median",
        "sum",
        "nan_count",
        "nan_fraction",
    ];
    let statistics = json!({"hook": "compute-stats", "config": {"variables":
        {"outputs": aggregates, "loss": ["mean"], "calls": ["max"]}, "phases": ["train"]}});
    let hooks = json!([
        "counter",
        statistics,
        collect(json!({"phases": ["train"], "files": "every"})),
        "csv"
    ]);
    let place = done(tiny(), hooks);
    for epoch in [1, 2] {
        let (shape, mut values) = floats(
            &place,
            &format!("accumulated/train-epoch{epoch}-outputs.npy"),
        );
        assert_eq!(shape, [24, 10]);
        let of = |what: &str| column(&place, "train.csv", &format!("outputs/{what}"))[epoch - 1];
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        values.sort_by(f64::total_cmp);
        near(of("mean"), mean);
        near(of("var"), variance);
        near(of("std"), variance.sqrt());
        near(of("sum"), mean * count);
        near(of("min"), values[0]);
        near(of("max"), values[239]);
        near(of("median"), f64::midpoint(values[119], values[120]));
        near(of("nan_count"), 0.0);
        near(of("nan_fraction"), 0.0);
    }
    // Batches of equal size: the mean of their losses is the loss of the pass.
    let losses = column(&place, "train.csv", "loss");
    let means = column(&place, "train.csv", "loss/mean");
    assert_eq!((losses.len(), means.len()), (2, 2));
    for (mean, loss) in means.iter().zip(losses) {
        assert!((mean - loss).abs() < 1e-6, "{mean} {loss}");
    }
    // A metric that another hook publishes in each iteration.
    assert_eq!(column(&place, "train.csv", "calls/max"), [3.0, 6.0]);
    let header = place.read("out/val.csv").lines().next().map(str::to_owned);
    assert!(
        !header.expect("a header").contains("outputs/"),
        "only the training"
    );
}

#[test]
fn statistics_leave_out_what_they_are_reported_to() {
    let config = json!({"variables": {"targets": ["max"], "numbers": ["sum"]}, "every": 2,
        "phases": ["train"], "prefix": "of/"});
    let hooks = json!([
        {"hook": "giver", "config": {"keep": "batch"}},
        {"hook": "compute-stats", "config": config},
        collect(json!({"variables": ["targets", "numbers", "indices"], "phases": ["train"], "every": 2})),
        "csv"
    ]);
    let place = done(tiny(), hooks);
    // Of three batches the first and the third; what is published there counts up.
    assert_eq!(
        column(&place, "train.csv", "of/numbers/sum"),
        [1.0 + 3.0 + 40.0, 4.0 + 6.0 + 40.0]
    );
    let targets = whole(&place, "accumulated/train-targets.npy");
    let most = targets.iter().max().map(|target| f64::from(*target));
    assert_eq!(
        column(&place, "train.csv", "of/targets/max")
            .last()
            .copied(),
        most
    );
    let (shape, numbers) = floats(&place, "accumulated/train-numbers.npy");
    assert_eq!((shape, numbers[0], numbers[6]), (vec![4, 3], 4.0, 6.0));
    let mut indices = whole(&place, "accumulated/train-indices.npy");
    indices.sort_unstable();
    indices.dedup();
    assert!(indices.len() == 16 && indices[15] < 24, "{indices:?}");

    let unknown = json!([{"hook": "compute-stats", "config": {"variables": {"output": ["mean"]}}}]);
    let (_, finished) = run(tiny(), unknown);
    finished.expect(4, &["there is no variable `output`", "`outputs`"]);
}

#[test]
fn values_that_are_no_numbers_are_counted_and_may_be_skipped() {
    // After the first epoch the parameters are none any more.
    let manifest = edit(tiny(), "/optimizer/learning_rate", json!(1e25));
    let cell = |skips: bool, name: &str| {
        let config = json!({"variables": {"outputs": ["nan_fraction", "sum"]}, "phases": ["val"],
            "skip_nan": skips});
        let hooks = json!([{"hook": "compute-stats", "config": config}, "csv"]);
        let place = done(manifest.clone(), hooks);
        column(&place, "val.csv", &format!("outputs/{name}"))[0]
    };
    near(cell(false, "nan_fraction"), 1.0);
    assert!(cell(false, "sum").is_nan());
    near(cell(true, "sum"), 0.0);
}

#[test]
fn collected_tensors_are_there_for_others_and_in_files() {
    let later = |variable: &str| {
        json!({"hook": "compute-stats", "config":
            {"variables": {variable: ["mean"]}, "phases": ["test"]}})
    };
    let save = json!({"hook": "asker", "priority": "LOWEST", "config":
        {"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "end",
        "after_iteration": 4, "once": true}});
    for (keep, prefix) in [("epoch", "accumulated"), ("run", "all/of")] {
        let config = json!({"save": "safetensors", "keep": keep, "prefix": prefix, "limit": 9,
            "directory": "kept"});
        let variable = format!("{prefix}/val/outputs");
        let hooks =
            json!([{"hook": "accumulate", "config": config}, later(&variable), save, "csv"]);
        let place = done(tiny(), hooks);
        let bytes = fs::read(place.path("out/kept/val.safetensors")).expect("the file");
        let file = safetensors::SafeTensors::deserialize(&bytes).expect("tensors");
        let outputs = file.tensor("outputs").expect("a tensor");
        assert_eq!(outputs.shape(), [9, 10], "of ten samples");
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let numbers: Vec<f64> = outputs
            .data()
            .chunks(4)
            .map(|bytes| f64::from(number(bytes)))
            .collect();
        let mean = numbers.iter().sum::<f64>() / 90.0;
        near(
            column(&place, "test.csv", &format!("{variable}/mean"))[0],
            mean,
        );
        assert_eq!(file.tensor("targets").expect("a tensor").shape(), [9]);
        let is_saved = place
            .checkpoint("end")
            .contains_key(&format!("published/{variable}"));
        assert_eq!(is_saved, keep == "run");
        assert!(place.path("out/kept/test.safetensors").exists());
        assert!(!place.path("out/kept/train.safetensors").exists());
    }
    // Of a scalar there is one for each batch.
    let place = done(
        tiny(),
        json!([collect(json!({"variables": ["loss"], "phases": ["val"]}))]),
    );
    assert_eq!(floats(&place, "accumulated/val-loss.npy").0, [2]);
}

#[test]
fn classes_are_scored_as_the_task_does() {
    let config = json!({"phases": ALL, "top_k": [1, 3, 10], "prefix": "",
        "scores": ["balanced_accuracy", "precision", "recall", "f1"], "average": ["macro", "micro"]});
    let mut manifest = tiny();
    manifest["metrics"] = json!(["accuracy", {"kind": "top-k", "k": 3}, "precision", "recall"]);
    // The task's own names are its own.
    let (_, finished) = run(
        manifest.clone(),
        json!([{"hook": "classification", "config": config}]),
    );
    finished.expect(4, &["`top3_accuracy` is the task's"]);
    let config = edit(config, "/prefix", json!("my/"));
    let hooks = json!([{"hook": "classification", "config": config}, "csv"]);
    let place = done(manifest, hooks);
    for phase in ["train", "val", "test"] {
        let file = format!("{phase}.csv");
        let of = |name: &str| column(&place, &file, name);
        for (own, theirs) in [
            ("my/top1_accuracy", "accuracy"),
            ("my/top3_accuracy", "top3_accuracy"),
            ("my/precision/micro", "accuracy"),
            ("my/f1/micro", "accuracy"),
        ] {
            for (own, theirs) in of(own).iter().zip(of(theirs)) {
                near(*own, theirs);
            }
        }
        assert!(of("my/top10_accuracy").iter().all(|share| *share == 1.0));
        // Of the classes that there are.
        for (balanced, share) in of("my/balanced_accuracy").iter().zip(of("my/recall/macro")) {
            assert!(*balanced >= share);
        }
    }
}

#[test]
fn areas_under_curves_and_calibration_are_metrics_as_others_are() {
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "two-moons", "train": 200, "val": 100, "test": 50});
    manifest["train"]["epochs"] = json!(4);
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.02});
    let scores = json!(["roc_auc", "pr_auc", "calibration_error"]);
    let hooks = json!([
        {"hook": "classification", "config": {"scores": scores, "average": ["macro", "none"]}}, "csv",
    ]);
    let place = done(manifest, hooks);
    let last = |name: &str| {
        let values = column(&place, "val.csv", &format!("classification/{name}"));
        values.last().copied().expect("a row")
    };
    // A net that has learnt something, of two classes: their areas are the same.
    let area = last("roc_auc/macro");
    assert!((0.8..=1.0).contains(&area), "{area}");
    near(last("roc_auc/upper"), area);
    near(last("roc_auc/lower"), area);
    near(last("pr_auc/lower"), last("pr_auc/macro"));
    assert!((0.0..0.5).contains(&last("calibration_error")));
}

#[test]
fn confusion_matrices_are_written_as_they_are_wanted() {
    let names: Vec<String> = (0..10).map(|class| format!("digit-{class}")).collect();
    let config = |confusion: Value| {
        json!([{"hook": "classification", "config": {"confusion": confusion, "scores": ["accuracy", "recall"],
            "average": ["none", "weighted"], "zero_division": 0.25}}, "csv"])
    };
    let place = done(
        tiny(),
        config(json!({"names": names, "files": "every", "directory": "c",
        "title": "What is what"})),
    );
    let rows = table(&place, "c/confusion-val-epoch2.csv");
    assert_eq!(
        (rows.len(), rows[0][1].as_str(), rows[10][0].as_str()),
        (11, "digit-0", "digit-9")
    );
    let cells = |row: &Vec<String>| -> Vec<f64> {
        row[1..]
            .iter()
            .map(|cell| cell.parse().expect("a number"))
            .collect()
    };
    let counts: Vec<Vec<f64>> = rows[1..].iter().map(cells).collect();
    near(counts.iter().flatten().sum(), 10.0);
    let right: f64 = counts
        .iter()
        .enumerate()
        .map(|(class, row)| row[class])
        .sum();
    near(
        column(&place, "val.csv", "classification/accuracy")[1],
        right / 10.0,
    );
    near(
        column(&place, "val.csv", "classification/recall/weighted")[1],
        right / 10.0,
    );
    for (class, row) in counts.iter().enumerate() {
        let sum: f64 = row.iter().sum();
        let expected = if sum == 0.0 { 0.25 } else { row[class] / sum };
        near(
            column(&place, "val.csv", &format!("classification/recall/{class}"))[1],
            expected,
        );
    }
    let picture = place.read("out/c/confusion-val-epoch1.svg");
    assert!(picture.contains("digit-3") && picture.contains("What is what"));

    let place = done(
        tiny(),
        config(json!({"normalise": "true", "picture": false})),
    );
    assert!(!place.path("out/confusion-val.svg").exists());
    for row in &table(&place, "confusion-val.csv")[1..] {
        let sum: f64 = cells(row).iter().sum();
        assert!(sum == 0.0 || (sum - 1.0).abs() < 1e-9, "{row:?}");
    }
    let place = done(tiny(), config(json!({"csv": false})));
    assert!(
        place.path("out/confusion-test.svg").exists()
            && !place.path("out/confusion-val.csv").exists()
    );
    let (_, finished) = run(tiny(), config(json!({"names": ["one", "two"]})));
    finished.expect(
        4,
        &["`confusion.names` has 2 names, and there are 10 classes"],
    );
}

#[test]
fn places_are_left_out_by_mask_and_by_target() {
    let total = |more: Value| {
        let mut config = json!({"confusion": {}, "phases": ["train"]});
        for (key, value) in more.as_object().expect("an object") {
            config[key] = value.clone();
        }
        let hooks = json!([{"hook": "classification", "config": config},
            collect(json!({"variables": ["targets"], "phases": ["train"]}))]);
        let place = done(tiny(), hooks);
        let rows = table(&place, "confusion-train.csv");
        let cells = rows[1..].iter().flat_map(|row| &row[1..]);
        let sum: f64 = cells
            .map(|cell| cell.parse::<f64>().expect("a number"))
            .sum();
        let targets = whole(&place, "accumulated/train-targets.npy");
        (sum, targets)
    };
    let (sum, targets) = total(json!({}));
    near(sum, 24.0);
    let zeros = targets.iter().filter(|target| **target == 0).count();
    let threes = targets.iter().filter(|target| **target == 3).count();
    assert!(zeros > 0 && threes > 0, "{targets:?}");
    // The targets themselves are a mask that leaves class 0 out.
    near(total(json!({"mask": "targets"})).0, 24.0 - zeros as f64);
    near(total(json!({"ignore_index": 3})).0, 24.0 - threes as f64);
    let hooks = json!([{"hook": "classification", "config": {"mask": "outputs"}}]);
    let (_, finished) = run(tiny(), hooks);
    finished.expect(4, &["the mask `outputs` has 80 values for 8 targets"]);
}

#[test]
fn predictions_are_those_of_the_outputs() {
    let config = json!({"phases": ALL, "scores": "logits", "files": "every"});
    let hooks = json!([{"hook": "predictions", "config": config},
        collect(json!({"variables": ["outputs", "targets", "indices"], "phases": ALL}))]);
    let place = done(tiny(), hooks);
    for (phase, epoch, count) in [("train", 2, 24), ("val", 2, 10), ("test", 2, 6)] {
        let rows = table(&place, &format!("predictions-{phase}-epoch{epoch}.csv"));
        assert_eq!(rows[0][..4], ["id", "target", "prediction", "logit_0"]);
        assert_eq!(rows.len(), count + 1);
        let file = |name: &str| format!("accumulated/{phase}-{name}.npy");
        let (_, outputs) = floats(&place, &file("outputs"));
        let (ids, targets) = (
            whole(&place, &file("indices")),
            whole(&place, &file("targets")),
        );
        for (index, row) in rows[1..].iter().enumerate() {
            let scores = &outputs[index * 10..(index + 1) * 10];
            let found: Vec<f64> = row
                .iter()
                .map(|cell| cell.parse().expect("a number"))
                .collect();
            near(found[0], f64::from(ids[index]));
            near(found[1], f64::from(targets[index]));
            near(found[2], highest(scores) as f64);
            // As few digits as give the same 32-bit number again.
            let logits: Vec<f32> = row[3..]
                .iter()
                .map(|cell| cell.parse().expect("a number"))
                .collect();
            assert!(
                logits
                    .iter()
                    .zip(scores)
                    .all(|(logit, score)| f64::from(*logit) == *score)
            );
        }
    }
    // Evaluations go through the data in its order.
    assert_eq!(
        whole(&place, "accumulated/val-indices.npy"),
        (0..10).collect::<Vec<_>>()
    );
    assert!(place.path("out/predictions-val-epoch1.csv").exists());
}

#[test]
fn tables_of_predictions_are_as_they_are_wanted() {
    let with = |config: Value| {
        done(
            tiny(),
            json!([{"hook": "predictions", "config": config}, "csv"]),
        )
    };
    let place = with(json!({"scores": "probabilities", "directory": "tables"}));
    for row in &table(&place, "tables/predictions-val.csv")[1..] {
        let shares: Vec<f64> = row[3..]
            .iter()
            .map(|cell| cell.parse().expect("a number"))
            .collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        assert_eq!(row[2], highest(&shares).to_string());
    }
    assert!(!place.path("out/tables/predictions-train.csv").exists());
    assert!(place.path("out/tables/predictions-test.csv").exists());

    let place = with(json!({"scores": "confidence", "only_wrong": true, "phases": ["val"]}));
    let rows = table(&place, "predictions-val.csv");
    assert_eq!(rows[0], ["id", "target", "prediction", "confidence"]);
    assert!(rows[1..].iter().all(|row| row[1] != row[2]));
    let accuracy = column(&place, "val.csv", "accuracy")[1];
    near((rows.len() - 1) as f64, 10.0 * (1.0 - accuracy));
    assert!(
        column(&place, "predictions-val.csv", "confidence")
            .iter()
            .all(|share| *share >= 0.1)
    );
    assert!(!place.path("out/predictions-test.csv").exists());

    let place = with(json!({"files": "every", "start_from": 2, "delimiter": "\t", "phases": ALL}));
    assert!(
        place
            .read("out/predictions-val-epoch2.csv")
            .starts_with("id\ttarget\tprediction\n")
    );
    for absent in ["val-epoch1", "train-epoch1"] {
        assert!(
            !place
                .path(&format!("out/predictions-{absent}.csv"))
                .exists()
        );
    }
    assert!(place.path("out/predictions-train-epoch2.csv").exists());
}

#[test]
fn names_sequences_and_numbers_are_predicted_too() {
    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "grammar", "train": 16, "val": 8, "test": 8, "context": 12});
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "embedding", "width": 4}, {"kind": "linear"}]});
    let hooks = json!([
        {"hook": "predictions", "config": {"names": true, "phases": ["val"], "mask": "targets"}},
        {"hook": "classification", "config": {"scores": ["accuracy"]}},
        collect(json!({"variables": ["targets"], "phases": ["val"]})), "csv"
    ]);
    let place = done(manifest, hooks);
    let rows = table(&place, "predictions-val.csv");
    assert_eq!(rows[0], ["id", "position", "target", "prediction"]);
    let targets = whole(&place, "accumulated/val-targets.npy");
    let shown: Vec<_> = (0..96).filter(|place| targets[*place] != 0).collect();
    assert_eq!(rows.len() - 1, shown.len());
    assert!(!shown.is_empty());
    for (row, place) in rows[1..].iter().zip(shown) {
        assert_eq!(
            row[..2],
            [(place / 12).to_string(), (place % 12).to_string()]
        );
        assert!(row[2].parse::<u32>().is_err(), "a name: {row:?}");
    }
    for (own, theirs) in column(&place, "val.csv", "classification/accuracy")
        .iter()
        .zip(column(&place, "val.csv", "accuracy"))
    {
        near(*own, theirs);
    }

    let mut manifest = tiny();
    manifest["data"] = json!({"kind": "regression", "train": 24, "val": 10, "test": 6});
    let hooks = json!([{"hook": "predictions"}, "csv"]);
    let place = done(manifest, hooks);
    let rows = table(&place, "predictions-val.csv");
    assert_eq!(
        (rows[0].join(" ").as_str(), rows.len()),
        ("id target prediction", 11)
    );
    let pairs = column(&place, "predictions-val.csv", "target");
    let pairs = pairs
        .iter()
        .zip(column(&place, "predictions-val.csv", "prediction"));
    let mean = pairs
        .map(|(target, prediction)| (target - prediction).powi(2))
        .sum::<f64>()
        / 10.0;
    let loss = column(&place, "val.csv", "loss")[1];
    assert!((mean - loss).abs() < 1e-5 * loss, "{mean} {loss}");
}

#[test]
fn a_single_logit_tells_yes_from_no_at_a_threshold() {
    let row = |row: u32| {
        format!(
            "{}.5,{},{}",
            row % 5,
            row * row % 7,
            u8::from(row.is_multiple_of(3))
        )
    };
    let rows = (0..24).map(row).collect::<Vec<_>>().join("\n");
    let with = |threshold: f64| {
        let place = Workplace::new(PLUGINS);
        place.write_text("table.csv", &format!("a,b,y\n{rows}\n"));
        let mut manifest = tiny();
        manifest["data"] = json!({"kind": "csv", "file": "table.csv", "target": "y",
            "target_kind": "numbers", "val": {"count": 9}});
        manifest["loss"] = json!({"kind": "binary-cross-entropy"});
        manifest["metrics"] = json!(["binary-accuracy"]);
        manifest["hooks"] = json!([
            {"hook": "classification", "config": {"scores": ["accuracy", "recall"], "average": ["none"],
                "threshold": threshold}},
            {"hook": "predictions", "config": {"kind": "classes", "scores": "probabilities",
                "threshold": threshold}}, "csv"]);
        place.run(&manifest).expect(0, &[]);
        place
    };
    let of = |place: &Workplace, name: &str| {
        column(place, "val.csv", &format!("classification/{name}"))[1]
    };
    let place = with(0.0);
    near(
        of(&place, "accuracy"),
        column(&place, "val.csv", "binary_accuracy")[1],
    );
    let shares = column(&place, "predictions-val.csv", "probability");
    let predictions = column(&place, "predictions-val.csv", "prediction");
    for (share, prediction) in shares.iter().zip(predictions) {
        near(prediction, f64::from(u8::from(*share > 0.5)));
    }
    let place = with(1e9);
    assert_eq!((of(&place, "recall/0"), of(&place, "recall/1")), (1.0, 0.0));
    let place = with(-1e9);
    assert_eq!((of(&place, "recall/0"), of(&place, "recall/1")), (0.0, 1.0));
}

#[test]
fn masked_classes_are_not_predicted() {
    let predicted = |config: Value, phase: &str| {
        let hooks = json!([{"hook": "output-mask", "config": config},
            collect(json!({"phases": ALL})), "csv"]);
        let (place, finished) = run(tiny(), hooks);
        let finished = finished.expect(0, &[]);
        let (_, outputs) = floats(&place, &format!("accumulated/{phase}-outputs.npy"));
        (place, outputs, finished.stderr)
    };
    let present = json!({"present": [1, 4, "7"], "masked_target": "ignore"});
    let (place, outputs, said) = predicted(present, "test");
    assert_eq!(outputs.len(), 60);
    for row in outputs.chunks(10) {
        assert!([1, 4, 7].contains(&highest(row)));
        assert_eq!(row.iter().filter(|score| score.is_infinite()).count(), 7);
    }
    assert!(!said.contains("masked"), "{said}");
    let class = whole(&place, "accumulated/val-targets.npy")[0] as usize;
    let absent =
        json!({"absent": [class], "value": -50.0, "phases": ["val"], "masked_target": "warn"});
    let (place, outputs, said) = predicted(absent, "val");
    assert_eq!(outputs.len(), 100);
    assert!(
        outputs
            .chunks(10)
            .all(|row| row[class] == -50.0 && row[(class + 1) % 10] > -50.0)
    );
    let words = format!("of the class {class}, which is masked");
    assert_eq!(said.matches(&words).count(), 1, "{said}");
    // Neither the training nor the test is masked.
    for phase in ["train", "test"] {
        let (_, outputs) = floats(&place, &format!("accumulated/{phase}-outputs.npy"));
        assert!(!outputs.is_empty() && outputs.iter().all(|score| *score > -50.0));
    }
    let hooks = json!([{"hook": "output-mask", "config": {"absent": [class]}}]);
    let (_, finished) = run(tiny(), hooks);
    finished.expect(4, &[&words, "`masked_target`"]);
    // What the host makes of the outputs sees the mask.
    let all = json!({"present": [0], "masked_target": "ignore", "value": -1e9});
    let (place, _, _) = predicted(all, "val");
    let targets = whole(&place, "accumulated/val-targets.npy");
    let zeros = targets.iter().filter(|target| **target == 0).count();
    near(
        column(&place, "val.csv", "accuracy")[0],
        zeros as f64 / 10.0,
    );
}

#[test]
fn classes_that_no_validation_has_are_masked_from_then_on() {
    // Four samples have not all of ten classes.
    let manifest = edit(tiny(), "/data/val", json!(4));
    let hooks = json!([{"hook": "output-mask", "config": {"masked_target": "ignore"}},
        collect(json!({"phases": ALL, "files": "every"}))]);
    let place = done(manifest, hooks);
    let targets = whole(&place, "accumulated/val-epoch1-targets.npy");
    let masked = |file: &str| {
        let (_, outputs) = floats(&place, file);
        (0..10)
            .filter(|class| outputs[*class].is_infinite())
            .collect::<Vec<_>>()
    };
    let expected: Vec<usize> = (0..10)
        .filter(|class| !targets.contains(&(*class as u32)))
        .collect();
    assert!(expected.len() >= 6);
    assert!(masked("accumulated/val-epoch1-outputs.npy").is_empty());
    assert_eq!(masked("accumulated/val-epoch2-outputs.npy"), expected);
    assert_eq!(masked("accumulated/test-epoch2-outputs.npy"), expected);
    assert!(masked("accumulated/train-epoch2-outputs.npy").is_empty());
}

#[test]
fn lines_are_drawn_over_epochs_and_iterations() {
    let drawn = |config: Value| {
        let place = done(tiny(), json!([{"hook": "plot-lines", "config": config}]));
        let file = config["file"].as_str().unwrap_or("lines.svg");
        place.read(&format!("out/{file}"))
    };
    let circles = |svg: &str| svg.matches("<circle").count();
    let svg = drawn(json!({}));
    for text in ["train/loss", "val/loss", "epoch", "tiny"] {
        assert!(svg.contains(text), "{text}");
    }
    assert_eq!(circles(&svg), 4);
    let config = json!({"metrics": ["train/loss", "test/accuracy"], "by": "iteration", "file": "a/b.svg",
        "title": "How it goes", "y_label": "what", "width": 640, "height": 300});
    let svg = drawn(config.clone());
    for text in [
        "train/loss",
        "test/accuracy",
        "iteration",
        "How it goes",
        "what",
        "640",
        "300",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // A point for each of six iterations, and one of the test.
    assert_eq!(circles(&svg), 7);
    let mut sparse = config.clone();
    sparse["every"] = json!(2);
    assert_eq!(circles(&drawn(sparse)), 4);
    let svgs: Vec<String> = [
        json!({}),
        json!({"smoothing": 3}),
        json!({"y_log": true}),
        json!({"x_log": true}),
    ]
    .into_iter()
    .map(|more| {
        let mut config = json!({"by": "iteration"});
        config
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("one").clone());
        drawn(config)
    })
    .collect();
    for (index, svg) in svgs.iter().enumerate() {
        assert!(
            svgs[..index].iter().all(|other| other != svg),
            "option {index} has an effect"
        );
    }
}

/// All files of the hooks, in the run's directory and below.
fn files(place: &Workplace) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut directories = vec![place.path("out")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let end = path
                .extension()
                .and_then(|end| end.to_str())
                .unwrap_or_default();
            if path.is_dir() && !path.ends_with("checkpoints") {
                directories.push(path);
            } else if ["csv", "svg", "npy", "part"].contains(&end) {
                let name = path.strip_prefix(place.path("out")).expect("below it");
                all.push((name.display().to_string(), fs::read(&path).expect("read")));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_run_that_is_resumed_amid_an_epoch_leaves_the_same_files() {
    let hooks = json!([
        {"hook": "compute-stats", "config": {"variables": {"outputs": ["mean", "std", "median", "max"]}}},
        collect(json!({"phases": ALL, "files": "every"})),
        {"hook": "classification", "config": {"phases": ALL, "top_k": [2], "confusion": {"files": "every"}}},
        {"hook": "predictions", "config": {"phases": ALL, "scores": "logits", "files": "every"}},
        {"hook": "output-mask", "config": {"masked_target": "ignore", "value": -30.0}},
        {"hook": "plot-lines", "config": {"by": "iteration", "metrics": ["loss", "accuracy"]}},
        "csv"
    ]);
    let straight = files(&done(tiny(), hooks.clone()));
    assert!(straight.len() > 20, "{}", straight.len());
    let save = json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter",
        "phase": "train", "what": "save_checkpoint", "text": "a", "after_iteration": 5, "once": true}});
    // An illegal request in the sixth iteration, the last of the second epoch, ends the run.
    let stop = json!({"hook": "asker", "config":
        {"at": "before_update", "what": "scale_loss", "after_iteration": 5}});
    let mut broken = hooks.clone();
    broken.as_array_mut().expect("a list").extend([save, stop]);
    let (place, finished) = run(tiny(), broken);
    finished.expect(4, &[]);
    place.write(&edit(tiny(), "/hooks", hooks));
    place
        .sconce(&["run", "manifest.json", "--resume", "a", "--allow-changes"])
        .expect(0, &[]);
    let resumed = files(&place);
    let names = |files: &[(String, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&resumed), names(&straight));
    for ((name, resumed), (_, straight)) in resumed.iter().zip(&straight) {
        assert!(resumed == straight, "{name}");
    }
}

#[test]
fn what_is_wrong_in_the_configuration_is_reported_before_anything_is_trained() {
    let cases = [
        ("compute-stats", json!({"every": 0}), "every"),
        (
            "compute-stats",
            json!({"variables": {"outputs": ["average"]}}),
            "average",
        ),
        (
            "compute-stats",
            json!({"variables": {}}),
            "`variables` asks for no statistics",
        ),
        ("accumulate", json!({"limit": 0}), "limit"),
        (
            "accumulate",
            json!({"variables": ["loss", "loss"]}),
            "`loss` twice",
        ),
        (
            "accumulate",
            json!({"publish": false}),
            "nothing becomes of",
        ),
        (
            "accumulate",
            json!({"directory": "../out"}),
            "`directory` must be relative",
        ),
        (
            "classification",
            json!({"zero_division": 2}),
            "zero_division",
        ),
        ("classification", json!({"top_k": [0]}), "top_k"),
        (
            "classification",
            json!({"confusion": {"normalize": "true"}}),
            "normalize",
        ),
        ("predictions", json!({"scores": "softmax"}), "softmax"),
        ("predictions", json!({"delimiter": "\n"}), "`delimiter`"),
        (
            "output-mask",
            json!({"present": [1], "absent": [2]}),
            "only one of",
        ),
        (
            "output-mask",
            json!({"masked_target": "stop"}),
            "masked_target",
        ),
        ("plot-lines", json!({"smoothing": 0}), "smoothing"),
        ("plot-lines", json!({"metrics": ["acuracy"]}), "acuracy"),
        (
            "plot-lines",
            json!({"metrics": []}),
            "`metrics` names nothing",
        ),
        (
            "plot-lines",
            json!({"file": "/tmp/a.svg"}),
            "`file` must be relative",
        ),
    ];
    for (hook, config, words) in cases {
        let (place, finished) = run(tiny(), json!([{"hook": hook, "config": config}]));
        assert!(
            finished.code != 0 && finished.stderr.contains(words),
            "{hook} {config}\n{}",
            finished.stderr
        );
        assert!(!place.path("out/train.csv").exists());
    }
    let hooks = json!([{"hook": "output-mask", "config": {"absent": ["eleven"]}}]);
    let (_, finished) = run(tiny(), hooks);
    finished.expect(3, &["`eleven`, which is not a class of the task"]);
}

//! Several views of images: the mean of their predictions, features of a module, and what a task with views or without targets can't have.

use std::fs;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// The lines of `sconce predict`.
fn predicted(place: &Workplace, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["predict", "out", "--phase", "val"], arguments].concat();
    let lines = place.sconce(&arguments).expect(0, &[]).stdout;
    let value = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(value).collect()
}

/// The probabilities of each sample.
fn probabilities(place: &Workplace, views: &str) -> Vec<Vec<f64>> {
    let of = |line: &Value| -> Vec<f64> {
        let classes = line["probabilities"].as_object().expect("classes").values();
        classes
            .map(|value| value.as_f64().expect("a number"))
            .collect()
    };
    let lines = predicted(place, &["--tta", views]);
    lines.iter().map(of).collect()
}

#[test]
fn a_prediction_of_views_is_the_mean_of_theirs() {
    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    let flipped = r#"{"flip": "horizontal", "flip_probability": 1}"#;
    let random = r#"{"crop": {"scale": [0.3, 0.6]}, "blur": {}}"#;
    let each: Vec<_> = ["{}", flipped, random]
        .iter()
        .map(|view| probabilities(&place, &format!("[{view}]")))
        .collect();
    assert_ne!(each[0], each[1]);
    let plain: Vec<Value> = predicted(&place, &[]);
    let class = |line: &Value| line["class"].as_str().expect("a class").to_owned();
    // A view's random numbers are those of its number, so that the third one is another here.
    let both = probabilities(&place, &format!("[{{}}, {flipped}]"));
    let mut right = 0;
    for (sample, found) in both.iter().enumerate() {
        let mut best = 0;
        for (class, found) in found.iter().enumerate() {
            let mean = f64::midpoint(each[0][sample][class], each[1][sample][class]);
            assert!((found - mean).abs() < 1e-6, "{found} {mean}");
            if *found > both[sample][best] {
                best = class;
            }
        }
        right += usize::from(plain[sample]["target"].as_str() == Some(&*best.to_string()));
        let single: f64 = each[0][sample].iter().copied().fold(0.0, f64::max);
        let of_plain = plain[sample]["probability"].as_f64().expect("a number");
        assert!(
            (single - of_plain).abs() < 1e-6,
            "{}",
            class(&plain[sample])
        );
    }
    let views = format!("[{{}}, {flipped}]");
    let evaluated = place.sconce(&["eval", "out", "--phase", "val", "--json", "--tta", &views]);
    let evaluated: Value = serde_json::from_str(&evaluated.expect(0, &[]).stdout).expect("JSON");
    let accuracy = evaluated["metrics"]["accuracy"].as_f64().expect("a number");
    assert!((accuracy - right as f64 / both.len() as f64).abs() < 1e-9);
    // The loss is that of the mean probabilities.
    let of_target = |(line, row): (&Value, &Vec<f64>)| {
        let class: usize = line["target"]
            .as_str()
            .and_then(|name| name.parse().ok())
            .expect("a digit");
        -row[class].ln()
    };
    let loss: f64 = plain.iter().zip(&both).map(of_target).sum::<f64>() / both.len() as f64;
    let found = evaluated["metrics"]["loss"].as_f64().expect("a number");
    assert!((found - loss).abs() < 1e-5, "{found} {loss}");
    for (views, words) in [
        ("[]", "the list of views is empty"),
        (
            r#"[{"crop": {"scale": [2, 1]}}]"#,
            "`--tta`: `views[0].crop.scale[0]` must be from 0.001 to 1, found 2",
        ),
    ] {
        let refused = place.sconce(&["predict", "out", "--tta", views]);
        refused.expect(2, &[words]);
    }
}

#[test]
fn features_are_the_outputs_of_a_module() {
    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    let summary = place
        .sconce(&["summary", "out/manifest.json"])
        .expect(0, &[]);
    let last = ["fc2", "output", "head"]
        .into_iter()
        .find(|name| summary.stdout.contains(name))
        .unwrap_or_else(|| panic!("{}", summary.stdout));
    let lines = predicted(&place, &["--module", last]);
    let plain = predicted(&place, &[]);
    let mut logits: Vec<f32> = Vec::new();
    for (line, plain) in lines.iter().zip(&plain) {
        let own: Vec<f64> = line["output"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|value| value.as_f64().expect("a number"))
            .collect();
        assert_eq!(own.len(), 10);
        assert_eq!(
            (&line["index"], &line["target"]),
            (&plain["index"], &plain["target"])
        );
        let sum: f64 = own.iter().map(|logit| logit.exp()).sum();
        let largest = own.iter().copied().fold(f64::MIN, f64::max);
        let expected = plain["probability"].as_f64().expect("a number");
        assert!((largest.exp() / sum - expected).abs() < 1e-6);
        logits.extend(own.iter().map(|logit| *logit as f32));
    }
    let arguments = [
        "predict",
        "out",
        "--phase",
        "val",
        "--module",
        last,
        "--format",
        "npy",
        "--output",
        "features.npy",
    ];
    place.sconce(&arguments).expect(0, &[]);
    let bytes = fs::read(place.path("features.npy")).expect("written");
    let header = String::from_utf8_lossy(&bytes[10..128]).into_owned();
    assert!(header.contains("'shape': (10, 10,)"), "{header}");
    let found: Vec<f32> = bytes[128..]
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four")))
        .collect();
    assert_eq!(found, logits);
    let wrong = place.sconce(&[
        "predict",
        "out",
        "--phase",
        "val",
        "--module",
        &format!("{last}x"),
    ]);
    wrong.expect(
        2,
        &[
            "the model has no module",
            &format!("did you mean `{last}`?"),
        ],
    );
    let nowhere = place.sconce(&["predict", "out", "--phase", "val", "--format", "npy"]);
    nowhere.expect(2, &["`--output FILE.npy`"]);
}

#[test]
fn a_probe_measures_a_module() {
    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    let probe = place.sconce(&[
        "probe",
        "out",
        "--phase",
        "train",
        "--neighbours",
        "1",
        "--json",
    ]);
    let found: Value = serde_json::from_str(&probe.expect(0, &[]).stdout).expect("JSON");
    // Each training sample is the nearest to itself.
    let expected = json!({"phase": "train", "features": 10, "neighbours": 1.0});
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&found[key], value, "{found}");
    }
    let linear = found["linear"].as_f64().expect("a number");
    assert!((0.2..=1.0).contains(&linear), "{linear}");
    let text = place.sconce(&["probe", "out"]).expect(0, &[]).stdout;
    assert!(
        text.contains("test/linear ") && text.contains("test/neighbours "),
        "{text}"
    );
    place
        .sconce(&["probe", "out", "--module", "nothing"])
        .expect(2, &["the model has no module `nothing`"]);
}

#[test]
fn what_views_and_missing_targets_exclude_is_reported() {
    let place = Workplace::new(&[]);
    let digits = |keys: Value| {
        let mut data = json!({"kind": "synthetic-digits", "train": 24, "val": 10, "test": 6});
        for (key, value) in keys.as_object().expect("an object") {
            data[key] = value.clone();
        }
        edit(tiny(), "/data", data)
    };
    let views = json!([{"count": 2, "crop": {}}]);
    for (manifest, words) in [
        (
            digits(json!({"views": views})),
            "the data have 2 views of each sample, whose outputs this loss can't compare",
        ),
        (
            digits(json!({"views": [{"count": 2, "crop": {"scale": [0.5, 0.1]}}]})),
            "`views[0].crop.scale[0]` must be from 0.001 to 0.1, found 0.5",
        ),
        (
            digits(json!({"targets": "none"})),
            "needs `outputs`: the data have no targets",
        ),
        (
            edit(
                edit(
                    digits(json!({"targets": "none"})),
                    "/model",
                    json!({"kind": "sequential", "layers": [
                        {"kind": "flatten"}, {"kind": "linear", "outputs": 16}]}),
                ),
                "/loss",
                json!({"kind": "mse"}),
            ),
            "the loss `mse` compares outputs with targets, and the data have none",
        ),
    ] {
        place.write(&manifest);
        place
            .sconce(&["check", "manifest.json"])
            .expect(2, &[words]);
    }
}

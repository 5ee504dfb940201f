//! `tensorboard`: what is in its files, read by a reader of our own and by TensorBoard's.

use std::fs;
use std::process::Command;

use sconce_tests::{Workplace, edit, say, tiny, workspace};
use serde_json::{Value, json};

use super::event_files::read;
use super::{PLUGINS, refused, run, save};

/// The events of a run of `tiny` with this config.
fn events(config: &Value) -> Value {
    let (place, finished) = run("tensorboard", config);
    finished.expect(0, &[]);
    read(&place.path("out/tensorboard"))
}

fn tags(found: &Value, kind: &str) -> Vec<String> {
    let tags = found[kind].as_object().expect("tags");
    tags.keys().cloned().collect()
}

fn steps(found: &Value, kind: &str, tag: &str) -> Vec<u64> {
    let events = found[kind][tag].as_array();
    let events = events.unwrap_or_else(|| panic!("no {tag} in {:?}", tags(found, kind)));
    events
        .iter()
        .filter_map(|event| event[0].as_u64())
        .collect()
}

/// Whether the two say the same, numbers up to what processors differ by.
fn assert_close(found: &Value, expected: &Value, path: &str) {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64(), expected.as_f64());
            let (found, expected) = (found.expect("a number"), expected.expect("a number"));
            let most = 1e-4 * expected.abs().max(1e-2);
            assert!(
                (found - expected).abs() <= most,
                "{path}: {found}, not {expected}"
            );
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{path}");
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_close(found, expected, &format!("{path}/{index}"));
            }
        }
        (Value::Object(found), Value::Object(expected)) => {
            let names = |map: &serde_json::Map<String, Value>| -> Vec<String> {
                map.keys().cloned().collect()
            };
            assert_eq!(names(found), names(expected), "{path}");
            for (name, expected) in expected {
                assert_close(&found[name], expected, &format!("{path}/{name}"));
            }
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

/// All kinds of events.
fn everything() -> Value {
    json!({"interval": 2, "histograms_every": 3, "buckets": 5, "images_every": 1, "images_count": 5})
}

/// What TensorBoard's readers print of a directory; nothing where Python or the package is not here.
fn read_by_tensorboard(place: &Workplace) -> Option<Value> {
    let python = std::env::var("SCONCE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = workspace().join("tests/reference/event_files.py");
    let output = Command::new(python)
        .arg(script)
        .arg(place.path("out/tensorboard"))
        .output()
        .ok()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("ModuleNotFoundError"), "{errors}");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn what_the_tensorboard_package_reads() {
    let (place, finished) = run("tensorboard", &everything());
    finished.expect(0, &[]);
    let path = workspace().join("tests/reference/event_files.json");
    let mut expected: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("read")).expect("JSON");
    if let Some(found) = read_by_tensorboard(&place) {
        assert_close(
            &without_manifest(found),
            &without_manifest(expected.clone()),
            "",
        );
    } else {
        say("TensorBoard's own reader is not here (SCONCE_PYTHON); read by ours alone");
    }
    let mut found = read(&place.path("out/tensorboard"));
    found.as_object_mut().expect("an object").remove("restarts");
    // Ours does not look into pictures.
    for events in expected["images"]
        .as_object_mut()
        .expect("tags")
        .values_mut()
    {
        for event in events.as_array_mut().expect("a list") {
            event.as_array_mut().expect("a list").pop();
        }
    }
    assert_close(&without_manifest(found), &without_manifest(expected), "");
}

/// The manifest has the version's new defaults in it.
fn without_manifest(mut events: Value) -> Value {
    let texts = events["texts"]["manifest"].as_array_mut().expect("a list");
    assert_eq!(texts.len(), 1);
    let text = texts[0][1].as_str().expect("a text");
    assert!(
        text.lines().all(|line| line.starts_with("    ")),
        "Markdown's code"
    );
    let manifest: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(manifest["name"], "tiny");
    texts.clear();
    events
}

#[test]
fn scalars_are_those_of_the_run() {
    let (place, finished) = run("tensorboard", &json!({}));
    finished.expect(0, &[]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let found = read(&place.path("out/tensorboard"));
    for phase in ["train", "val", "test"] {
        for name in ["loss", "accuracy"] {
            let last = found["scalars"][format!("{phase}/{name}")]
                .as_array()
                .and_then(|all| all.last());
            let value = last.and_then(|event| event[1].as_f64()).expect("a number");
            let expected = record["metrics"][phase][name].as_f64().expect("a number");
            assert!(
                (value - expected).abs() < 1e-6,
                "{phase}/{name}: {value} {expected}"
            );
        }
    }
    assert_eq!(steps(&found, "scalars", "val/loss"), [3, 6]);
    assert_eq!(steps(&found, "scalars", "train/loss"), [3, 6]);
    // The interval is longer than the run.
    assert!(found["scalars"].get("iteration/loss").is_none());
}

#[test]
fn every_option_of_tensorboard_shows_in_the_files() {
    let found = events(
        &json!({"interval": 1, "by_epoch": false, "manifest": false, "learning_rates": false}),
    );
    assert_eq!(
        tags(&found, "scalars"),
        ["iteration/accuracy", "iteration/loss"]
    );
    assert_eq!(
        steps(&found, "scalars", "iteration/loss"),
        [1, 2, 3, 4, 5, 6]
    );
    assert_eq!(tags(&found, "texts"), [""; 0]);

    let found = events(&json!({"interval": 0}));
    assert_eq!(steps(&found, "scalars", "learning_rate"), [3, 6]);
    for (axis, within, at_ends) in [
        ("iteration", [2, 4, 6], [3, 6]),
        ("update", [1, 2, 4], [2, 4]),
        ("samples", [16, 32, 48], [24, 48]),
        ("epoch", [2, 4, 6], [1, 2]),
    ] {
        let place = Workplace::new(PLUGINS);
        let config = json!({"interval": 2, "axis": axis, "histograms_every": 2, "images_every": 1});
        let hooks = json!([{"hook": "tensorboard", "config": config}]);
        let manifest = edit(tiny(), "/train/accumulate", json!(2));
        let manifest = edit(manifest, "/train/initial_validation", json!(true));
        place.run(&edit(manifest, "/hooks", hooks)).expect(0, &[]);
        let found = read(&place.path("out/tensorboard"));
        assert_eq!(steps(&found, "scalars", "iteration/loss"), within, "{axis}");
        assert_eq!(steps(&found, "scalars", "train/loss"), at_ends, "{axis}");
        // The second and the fourth update end with the third and the sixth batch.
        let both = if axis == "epoch" { [3, 6] } else { at_ends };
        assert_eq!(
            steps(&found, "histograms", "gradients/fc1.weight"),
            both,
            "{axis}"
        );
        assert_eq!(
            steps(&found, "histograms", "parameters/fc1.weight"),
            both,
            "{axis}"
        );
        let pictures = steps(&found, "images", "val/inputs");
        let expected = [0, at_ends[0], at_ends[1]];
        assert_eq!(pictures, expected, "{axis}");
    }

    let config = json!({"histograms_every": 1, "histograms_of": ["gradients"], "parameters": ["*.bias"], "buckets": 3});
    let found = events(&config);
    assert_eq!(
        tags(&found, "histograms"),
        ["gradients/fc1.bias", "gradients/fc2.bias"]
    );
    let first = &found["histograms"]["gradients/fc2.bias"][0];
    assert_eq!(first[3], 10.0);
    assert_eq!(first[7].as_array().map(Vec::len), Some(3));
    let of: f64 = first[7]
        .as_array()
        .expect("buckets")
        .iter()
        .filter_map(Value::as_f64)
        .sum();
    assert!((of - 10.0).abs() < 1e-9, "each number is in a bucket");

    for (count, width, height) in [(1, 28, 28), (3, 58, 58), (8, 88, 88)] {
        let found = events(&json!({"images_every": 2, "images_count": count}));
        assert_eq!(steps(&found, "images", "train/inputs"), [4]);
        assert_eq!(
            found["images"]["train/inputs"][0],
            json!([4, width, height, "L"])
        );
    }

    let (place, finished) = run(
        "tensorboard",
        &json!({"directory": "logs/tb", "flush_seconds": 1e6}),
    );
    finished.expect(0, &[]);
    let found = read(&place.path("out/logs/tb"));
    assert_eq!(
        steps(&found, "scalars", "test/loss"),
        [6],
        "what waits is written at the end"
    );
}

#[test]
fn tables_buffers_and_groups_are_written_where_they_are_asked_for() {
    let model = json!({"kind": "resnet", "blocks": [1], "width": 2});
    let manifest = edit(tiny(), "/model", model);
    let manifest = edit(manifest, "/metrics", json!([{"kind": "confusion-matrix"}]));
    let groups = json!([{"name": "slow", "parameters": ["conv1.*"], "learning_rate_scale": 0.5}]);
    let manifest = edit(manifest, "/optimizer/groups", groups);
    for (config, has) in [
        (json!({"histograms_every": 3, "interval": 3}), false),
        (
            json!({"histograms_every": 3, "interval": 3, "tables": true, "buffers": true}),
            true,
        ),
    ] {
        let place = Workplace::new(PLUGINS);
        let hooks = json!([{"hook": "tensorboard", "config": config}]);
        place
            .run(&edit(manifest.clone(), "/hooks", hooks))
            .expect(0, &[]);
        let found = read(&place.path("out/tensorboard"));
        let scalars = tags(&found, "scalars");
        assert!(
            scalars.contains(&"learning_rate/default".to_owned()),
            "{scalars:?}"
        );
        assert!(
            scalars.contains(&"learning_rate/slow".to_owned()),
            "{scalars:?}"
        );
        let tables = scalars.iter().any(|tag| tag.contains("confusion"));
        let buffers = tags(&found, "histograms")
            .iter()
            .any(|tag| tag.ends_with("running_mean"));
        assert_eq!((tables, buffers), (has, has), "{config}");
    }
}

#[test]
fn a_range_of_brightness_makes_another_picture() {
    let picture = |config: Value| {
        let (place, finished) = run("tensorboard", &config);
        finished.expect(0, &[]);
        fs::read(place.path("out/tensorboard/events.out.tfevents.0000000001.sconce"))
            .expect("a file")
    };
    let plain = picture(json!({"images_every": 1, "interval": 0}));
    let narrow = picture(json!({"images_every": 1, "interval": 0, "images_range": [0.4, 0.6]}));
    assert_ne!(plain.len(), narrow.len());
}

#[test]
fn inputs_that_are_no_images_are_reported_once() {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": "tensorboard", "config": {"images_every": 1}}]);
    let data = json!({"kind": "two-moons", "train": 24, "val": 8, "test": 8});
    let manifest = edit(tiny(), "/data", data);
    let finished = place
        .run(&edit(manifest, "/hooks", hooks))
        .expect(0, &["pictures are not written", "[8, 2]"]);
    assert_eq!(
        finished.stderr.matches("pictures are not written").count(),
        1
    );
}

#[test]
fn event_files_go_on_after_a_resume_with_no_iteration_twice() {
    let mut config = everything();
    config["interval"] = json!(2);
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": "tensorboard", "config": config}, save(4)]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
    let directory = place.path("out/tensorboard");
    let mut expected = read(&directory);
    assert_eq!(steps(&expected, "scalars", "iteration/loss"), [2, 4, 6]);
    // Twice: the second time a file of the first resume has to go.
    let checkpoint = place.path("out/checkpoints/here");
    let kept: Vec<_> = fs::read_dir(&checkpoint)
        .expect("a checkpoint")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.clone(), fs::read(path).expect("a file")))
        .collect();
    for files in [["1", "2"], ["1", "3"]] {
        // The first resume has saved it anew.
        for (path, content) in &kept {
            fs::remove_file(path).expect("removed");
            fs::write(path, content).expect("written");
        }
        let again = place.sconce(&["run", "manifest.json", "--resume", "here"]);
        again.expect(0, &["resumes from"]);
        let found = read(&directory);
        expected["restarts"] = json!([5]);
        assert_eq!(found, expected);
        let entries = fs::read_dir(&directory).expect("a directory");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        let expected = files.map(|number| format!("events.out.tfevents.000000000{number}.sconce"));
        assert_eq!(names, expected.map(std::ffi::OsString::from));
    }
    if let Some(found) = read_by_tensorboard(&place) {
        assert_eq!(steps(&found, "scalars", "iteration/loss"), [2, 4, 6]);
        assert_eq!(steps(&found, "scalars", "val/loss"), [3, 6]);
    }
    // A run that begins anew takes the place of the old one.
    place
        .sconce(&["run", "manifest.json", "--overwrite"])
        .expect(0, &[]);
    expected["restarts"] = json!([]);
    assert_eq!(read(&directory), expected);
}

#[test]
fn a_wrong_tensorboard_is_refused() {
    refused("tensorboard", json!({"axis": "steps"}), &["`iteration`"]);
    refused(
        "tensorboard",
        json!({"buckets": 0}),
        &["hooks[0].config.buckets"],
    );
    refused(
        "tensorboard",
        json!({"directory": "/tmp"}),
        &["stay below it: `/tmp`"],
    );
    refused(
        "tensorboard",
        json!({"images_range": [1, 0]}),
        &["from a lower to a higher number"],
    );
}

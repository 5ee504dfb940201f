//! Every wrong data file is told before anything is trained.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

/// An IDX file of bytes.
fn idx(dimensions: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dimensions.len() as u8];
    for size in dimensions {
        file.extend(size.to_be_bytes());
    }
    file.extend(bytes);
    file
}

fn images(count: u32) -> Vec<u8> {
    let bytes: Vec<u8> = (0..count * 16)
        .map(|index| (index * 7 % 251) as u8)
        .collect();
    idx(&[count, 4, 4], &bytes)
}

fn labels(labels: &[u8]) -> Vec<u8> {
    idx(&[labels.len() as u32], labels)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("packed");
    encoder.finish().expect("packed")
}

/// A run on these files, with further keys of `data`.
fn run(images: &[u8], labels: &[u8], more: &Value) -> Finished {
    let place = Workplace::new(&[]);
    std::fs::write(place.path("images"), images).expect("written");
    std::fs::write(place.path("labels"), labels).expect("written");
    let mut data = json!({"kind": "idx", "images": "images", "labels": "labels"});
    for (key, value) in more.as_object().into_iter().flatten() {
        data[key] = value.clone();
    }
    let finished = place.run(&edit(tiny(), "/data", data));
    if finished.code != 0 {
        assert!(
            !place.path("out").exists(),
            "nothing is made before the data is right"
        );
    }
    finished
}

const LABELS: [u8; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

#[test]
fn right_files_are_trained_on() {
    run(
        &images(10),
        &labels(&LABELS),
        &json!({"val": {"count": 2}, "test": {"fraction": 0.2}}),
    )
    .expect(0, &["6 train, 2 val, 2 test"]);
    run(&gzip(&images(10)), &gzip(&labels(&LABELS)), &json!({})).expect(0, &["10 train"]);
}

#[test]
fn wrong_files_are_reported_with_their_names() {
    let mut late = LABELS;
    late[7] = 12;
    for (images, labels, more, words) in [
        (
            images(10),
            labels(&LABELS),
            json!({"images": "nowhere"}),
            &["can't read", "nowhere", "at data"][..],
        ),
        (
            images(10)[..100].to_vec(),
            labels(&LABELS),
            json!({}),
            &["images", "truncated: 176 bytes expected, found 100"],
        ),
        (
            gzip(&gzip(&images(10))),
            labels(&LABELS),
            json!({}),
            &["gzipped twice"],
        ),
        (
            b"not an idx file".to_vec(),
            labels(&LABELS),
            json!({}),
            &["not an IDX file", "(text)"],
        ),
        (
            labels(&LABELS),
            images(10),
            json!({}),
            &["are images and labels exchanged?"],
        ),
        (
            images(10),
            labels(&LABELS[..9]),
            json!({}),
            &["has 10 images", "has 9 labels"],
        ),
        (
            images(10),
            labels(&late),
            json!({}),
            &["label 7 in", "is 12, but there are 10 classes, 0 to 9"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"classes": ["a", "b"]}),
            &["label 2 in", "but there are 2 classes"],
        ),
        (
            idx(&[0, 4, 4], &[]),
            labels(&[]),
            json!({}),
            &["has no samples"],
        ),
        (
            idx(&[u32::MAX, u32::MAX, u32::MAX], &[0]),
            labels(&LABELS),
            json!({}),
            &["can't be right"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"val": {"count": 10}}),
            &["nothing is left to train on"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"val": {}}),
            &["`data.val` must have exactly one of"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"val": {"count": 1, "fraction": 0.1}}),
            &["exactly one of"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"val": {"fraction": 1.0}}),
            &["must be below 1"],
        ),
        (
            images(10),
            labels(&LABELS),
            json!({"test": {"images": "labels", "labels": "labels"}}),
            &["exchanged"],
        ),
    ] {
        run(&images, &labels, &more).expect(2, words);
    }
}

#[test]
fn a_file_of_its_own_must_have_the_trainings_shape() {
    let place = Workplace::new(&[]);
    std::fs::write(place.path("images"), images(10)).expect("written");
    std::fs::write(place.path("labels"), labels(&LABELS)).expect("written");
    std::fs::write(place.path("small"), idx(&[10, 2, 2], &[1; 40])).expect("written");
    let data = |val: &str| json!({"kind": "idx", "images": "images", "labels": "labels", "val": {"images": val, "labels": "labels"}});
    place
        .run(&edit(tiny(), "/data", data("images")))
        .expect(0, &["10 train, 10 val"]);
    place.run(&edit(tiny(), "/data", data("small"))).expect(
        2,
        &["have the shape [1, 2, 2], those of the training [1, 4, 4]"],
    );
}

#[test]
fn every_tenth_of_a_file_is_too_little() {
    for packed in [false, true] {
        let whole = if packed {
            gzip(&images(10))
        } else {
            images(10)
        };
        for tenth in 0..10 {
            let part = &whole[..whole.len() * tenth / 10];
            let finished = run(part, &labels(&LABELS), &json!({}));
            let told = finished.stderr.contains("truncated") || finished.stderr.contains("damaged");
            assert!(
                finished.code == 2 && told,
                "{tenth} tenths:\n{}",
                finished.stderr
            );
        }
    }
}

/// A place with a table of `rows`, the first of which is its header, and a run on it.
fn table(rows: &str) -> (Workplace, Value) {
    let place = Workplace::new(&[]);
    place.write_text("table.csv", rows);
    let data = json!({"kind": "csv", "file": "table.csv", "target": "y"});
    (place, edit(tiny(), "/data", data))
}

#[test]
fn a_damaged_table_is_reported_with_its_line_and_column() {
    let rows: Vec<String> = (1..=50).map(|row| format!("{row},{}", row % 5)).collect();
    let with = |line: usize, text: &str| {
        let mut rows = rows.clone();
        rows[line - 2] = text.to_owned();
        format!("a,y\n{}\n", rows.join("\n"))
    };
    for (text, words) in [
        (
            with(12, "11,\"1"),
            ["line 12 of", "quote that opens field 2 is never closed"],
        ),
        (
            with(7, "6\0,1"),
            ["line 7 of", "the column `a` has a NUL byte"],
        ),
        (
            with(9, "1e39,1"),
            [
                "line 9 of",
                "the column `a` must have numbers, found `1e39`",
            ],
        ),
        (
            with(9, "8,1e39"),
            ["line 9 of", "set `data.target_kind` to \"classes\""],
        ),
    ] {
        let (place, manifest) = table(&text);
        place.run(&manifest).expect(2, &words);
        assert!(!place.path("out").exists());
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let place = Workplace::new(&[]);
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo")
            .arg(place.path(name))
            .status();
        assert!(made.expect("mkfifo").success());
    };
    std::fs::create_dir_all(place.path("folder/cat")).expect("a directory");
    for name in ["pipe", "folder/cat/pipe"] {
        pipe(name);
    }
    for (data, word) in [
        (
            json!({"kind": "image-folder", "directory": "folder"}),
            "a named pipe (FIFO), no image",
        ),
        (
            json!({"kind": "idx", "images": "pipe", "labels": "pipe"}),
            "a named pipe (FIFO)",
        ),
        (
            json!({"kind": "csv", "file": "pipe", "target": "y"}),
            "a named pipe (FIFO)",
        ),
        (
            json!({"kind": "text", "file": "pipe", "context": 4}),
            "a named pipe (FIFO)",
        ),
        (
            json!({"kind": "npy", "inputs": "pipe", "targets": "pipe"}),
            "a named pipe (FIFO)",
        ),
        (
            json!({"kind": "safetensors", "file": "pipe", "inputs": "x", "targets": "y"}),
            "a named pipe (FIFO)",
        ),
    ] {
        place.run(&edit(tiny(), "/data", data)).expect(2, &[word]);
    }
    let weights = edit(tiny(), "/weights", json!({"file": "pipe"}));
    place
        .run(&weights)
        .expect(2, &["a named pipe (FIFO)", "at weights"]);
    place
        .sconce(&["run", "pipe"])
        .expect(2, &["can't read the manifest", "a named pipe (FIFO)"]);
}

#[test]
fn predictions_say_which_row_of_the_file_they_are_of() {
    // Each row's target is its input; rows without one are left out, and the test's are drawn.
    let rows: String = (0..40)
        .map(|row| {
            if row % 4 == 0 {
                format!("{row},\n")
            } else {
                format!("{row},{row}\n")
            }
        })
        .collect();
    let (place, manifest) = table(&format!("a,y\n{rows}"));
    let manifest = edit(manifest, "/data/test", json!({"count": 9}));
    place.run(&manifest).expect(0, &["9 test"]);
    let predict = |more: &[&str]| {
        let weights = [
            "predict",
            "manifest.json",
            "--checkpoint",
            "out/weights.safetensors",
        ];
        let printed = place
            .sconce(&[&weights[..], more].concat())
            .expect(0, &[])
            .stdout;
        printed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = predict(&[]);
    assert_eq!(lines.len(), 9);
    for (index, line) in lines.iter().enumerate() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["index"], index);
        assert_eq!(line["row"].as_f64(), line["target"]["y"].as_f64(), "{line}");
    }
    let csv = predict(&["--format", "csv"]);
    assert_eq!(csv[0], "index,row,y,target of y");
    let cells: Vec<&str> = csv[1].split(',').collect();
    assert_eq!(cells[1], cells[3]);
    // A file's targets are known where it has them all.
    place.write_text("other.csv", "y,a\n7,1\n8,2\n");
    let lines = predict(&["--input", "other.csv", "--format", "csv"]);
    assert!(
        lines[2].starts_with("1,1,") && lines[2].ends_with(",8"),
        "{lines:?}"
    );
    place.write_text("other.csv", "a\n1\n");
    let line: Value = serde_json::from_str(&predict(&["--input", "other.csv"])[0]).expect("JSON");
    assert!(line["row"] == 0 && line.get("target").is_none(), "{line}");
}

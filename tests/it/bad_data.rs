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
fn wrong_files_are_told_with_their_names() {
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
            &["no IDX file", "(text)"],
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

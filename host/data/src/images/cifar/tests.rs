//! Records are read as they were written, and errors in files are reported.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Dataset, Splits};

/// Records with these labels; the pixels of each count up from its index.
fn records(labels: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, labels) in labels.iter().enumerate() {
        bytes.extend_from_slice(labels);
        bytes.extend((0..PIXELS).map(|pixel| (pixel + index) as u8));
    }
    bytes
}

fn write(directory: &TempDir, name: &str, bytes: &[u8]) {
    std::fs::write(directory.path().join(name), bytes).expect("written");
}

/// Five batches of two images each, and a test set of three.
fn ten() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for batch in 0..5 {
        let name = format!("data_batch_{}.bin", batch + 1);
        write(&directory, &name, &records(&[&[batch], &[batch + 5]]));
    }
    write(&directory, "test_batch.bin", &records(&[&[9], &[8], &[7]]));
    directory
}

/// Four training images and two test images, with coarse and fine labels.
fn hundred() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let train = records(&[&[0, 99], &[19, 1], &[3, 50], &[4, 51]]);
    write(&directory, "train.bin", &train);
    write(&directory, "test.bin", &records(&[&[1, 2], &[2, 3]]));
    directory
}

fn read(directory: &TempDir, version: u16, keys: &Value) -> Result<Splits, DataError> {
    let mut config = json!({"kind": "cifar", "directory": ".", "version": version});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config = serde_json::from_value(config).expect("a config");
    crate::load(&config, directory.path(), 1)
}

fn classes(data: &dyn Dataset) -> Vec<u32> {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let targets = data.gather(&all, 0).expect("a batch").targets;
    targets.to_vec1().expect("whole numbers")
}

#[test]
fn batches_come_in_their_order_and_the_test_set_is_tested_on() {
    let splits = read(&ten(), 10, &json!({"normalise": "none"})).expect("it is right");
    let train = splits.train;
    assert_eq!(train.sample_shape(), SHAPE);
    assert_eq!(classes(train.as_ref()), [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]);
    assert!(splits.val.is_none());
    let test = splits.test.expect("the test set");
    assert_eq!(classes(test.as_ref()), [9, 8, 7]);
    assert_eq!(train.class_names()[..2], ["airplane", "automobile"]);
    let inputs = train.gather(&[1], 0).expect("a batch").inputs;
    let flat = inputs.flatten_all().expect("flat");
    let expected: Vec<f32> = (1..=PIXELS)
        .map(|pixel| (f64::from(pixel as u8) / 255.0) as f32)
        .collect();
    assert_eq!(flat.to_vec1::<f32>().expect("numbers"), expected);
}

#[test]
fn fine_and_coarse_labels_are_reported_apart() {
    let directory = hundred();
    for (keys, expected, name, count) in [
        (json!({}), [99, 1, 50, 51], "apple", 100),
        (json!({"labels": "fine"}), [99, 1, 50, 51], "apple", 100),
        (
            json!({"labels": "coarse"}),
            [0, 19, 3, 4],
            "aquatic_mammals",
            20,
        ),
    ] {
        let splits = read(&directory, 100, &keys).expect("it is right");
        assert_eq!(classes(splits.train.as_ref()), expected);
        let names = splits.train.class_names();
        assert_eq!((names[0].as_str(), names.len()), (name, count));
    }
}

#[test]
fn the_known_names_are_those_of_the_sets() {
    for (names, count) in [(names::TEN, 10), (names::FINE, 100), (names::COARSE, 20)] {
        let names: Vec<&str> = names.split_ascii_whitespace().collect();
        assert_eq!(names.len(), count);
        // All of them are in alphabetical order.
        assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn names_in_the_directory_come_first() {
    let directory = ten();
    let names = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n";
    write(&directory, "batches.meta.txt", names.as_bytes());
    let splits = read(&directory, 10, &json!({})).expect("it is right");
    assert_eq!(splits.train.class_names()[9], "j");
    write(&directory, "batches.meta.txt", b"a\nb\n");
    let error = read(&directory, 10, &json!({})).err().expect("two names");
    let words = "has 2 names of classes, one a line, but there are 10";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn parts_of_the_training_set_and_other_files_take_a_phases_place() {
    let directory = ten();
    let sizes = |keys: &Value| {
        let splits = read(&directory, 10, keys).expect("it is right");
        let len = |data: Option<Arc<dyn Dataset>>| data.map_or(0, |data| data.len());
        [splits.train.len(), len(splits.val), len(splits.test)]
    };
    let part = json!({"val": {"fraction": 0.2}, "test": {"count": 1}});
    assert_eq!(sizes(&part), [7, 2, 1]);
    let file = json!({"val": {"file": "test_batch.bin"}, "test": {"file": "data_batch_1.bin"}});
    assert_eq!(sizes(&file), [10, 3, 2]);
    for batch in 1..6 {
        let name = format!("data_batch_{batch}.bin");
        write(&directory, &name, &records(&[&[1], &[1], &[1], &[2]]));
    }
    let keys = json!({"val": {"fraction": 0.2}, "stratified": true});
    let splits = read(&directory, 10, &keys).expect("it is right");
    let mut val = classes(splits.val.expect("a fifth").as_ref());
    val.sort_unstable();
    assert_eq!(val, [1, 1, 1, 2]);
}

#[test]
fn another_file_is_opened_for_predictions() {
    let directory = ten();
    let keys = json!({"augment": {"crop": {"padding": 4}, "flip": "horizontal"}});
    let learnt = read(&directory, 10, &keys).expect("it is right");
    let learnt = learnt.preprocessing;
    let file = directory.path().join("test_batch.bin");
    let opened = learnt.open(&file).expect("it is right").samples;
    assert_eq!((opened.len(), opened.plain().is_none()), (3, true));
    let error = learnt
        .open("/no/such/file".as_ref())
        .err()
        .expect("missing");
    assert!(error.to_string().contains("no such file"), "{error}");
}

#[test]
fn what_is_wrong_with_files_is_reported() {
    let with = |name: &str, bytes: &[u8]| {
        let directory = ten();
        write(&directory, name, bytes);
        directory
    };
    let without = ten();
    std::fs::remove_file(without.path().join("data_batch_3.bin")).expect("removed");
    let untested = ten();
    std::fs::remove_file(untested.path().join("test_batch.bin")).expect("removed");
    let whole = records(&[&[1], &[2]]);
    for (directory, version, keys, words) in [
        (without, 10, json!({}), "has no file `data_batch_3.bin`"),
        (untested, 10, json!({}), "has no file `test_batch.bin`"),
        (ten(), 100, json!({}), "`cifar-100-binary` with `train.bin`"),
        (
            with("data_batch_2.bin", &whole[..whole.len() - 1]),
            10,
            json!({}),
            "data_batch_2.bin` has 6145 bytes, no multiple of the 3073 that",
        ),
        (
            with("data_batch_2.bin", &records(&[&[1, 1]])),
            10,
            json!({}),
            "the other version, correct `data.version`",
        ),
        (
            with("data_batch_1.bin", &[]),
            10,
            json!({}),
            "has no samples",
        ),
        (
            with("test_batch.bin", &records(&[&[1], &[10]])),
            10,
            json!({}),
            "record 1 in",
        ),
        (
            with("test_batch.bin", &records(&[&[1], &[10]])),
            10,
            json!({}),
            "test_batch.bin` has the label 10, but there are 10 classes, 0 to 9",
        ),
        (
            ten(),
            10,
            json!({"labels": "coarse"}),
            "for CIFAR-100 alone",
        ),
        (
            ten(),
            10,
            json!({"val": {"count": 10}}),
            "nothing is left to train on",
        ),
        (
            ten(),
            10,
            json!({"normalise": {"mean": [0.5], "deviation": [0.5]}}),
            "but the images have 3",
        ),
    ] {
        let error = read(&directory, version, &keys).err().expect(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn there_is_no_third_version() {
    let config = json!({"kind": "cifar", "directory": ".", "version": 20});
    let error = serde_json::from_value::<crate::DataConfig>(config);
    let error = error.expect_err("no such version").to_string();
    assert!(error.contains("there is no CIFAR-20"), "{error}");
    let config = json!({"kind": "cifar", "directory": ".", "version": 100});
    let read: crate::DataConfig = serde_json::from_value(config.clone()).expect("right");
    assert_eq!(serde_json::to_value(read).expect("written"), config);
}

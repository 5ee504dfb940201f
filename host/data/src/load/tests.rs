//! From configurations and files to splits, and configurations that do not fit.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Dataset, Targets};

fn idx(dimensions: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dimensions.len() as u8];
    file.extend(dimensions.iter().flat_map(|&size| [0, 0, 0, size]));
    file.extend(bytes);
    file
}

/// A directory with ten images of rank 3 and 4, labels for them, and files that do not fit.
fn directory() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let pixels: Vec<u8> = (0..240).collect();
    let labels: Vec<u8> = (0..10).collect();
    for (name, content) in [
        ("images", idx(&[10, 4, 6], &pixels)),
        ("channels", idx(&[10, 2, 4, 3], &pixels)),
        ("turned", idx(&[10, 6, 4], &pixels)),
        ("labels", idx(&[10], &labels)),
        ("nine", idx(&[9], &labels[..9])),
        ("late", idx(&[10], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 200])),
    ] {
        std::fs::write(directory.path().join(name), content).expect("written");
    }
    directory
}

/// Loads the files of `directory`; `keys` overrides options.
fn load_from(directory: &TempDir, keys: &Value) -> Result<Splits, DataError> {
    let mut config = json!({"kind": "idx", "images": "images", "labels": "labels"});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config = serde_json::from_value(config).expect("a config");
    load(&config, directory.path(), 1)
}

fn sizes(splits: &Splits) -> [usize; 3] {
    let len = |data: &Option<Arc<dyn Dataset>>| data.as_ref().map_or(0, |data| data.len());
    [splits.train.len(), len(&splits.val), len(&splits.test)]
}

#[test]
fn splits_have_the_sizes_that_are_asked_for() {
    let directory = directory();
    let own = json!({"images": "images", "labels": "labels"});
    for (keys, expected) in [
        (json!({}), [10, 0, 0]),
        (
            json!({"val": {"count": 3}, "test": {"fraction": 0.2}}),
            [5, 3, 2],
        ),
        (json!({"val": {"count": 3}, "test": own}), [7, 3, 10]),
    ] {
        let splits = load_from(&directory, &keys).expect("it is right");
        assert_eq!(sizes(&splits), expected, "{keys}");
        assert_eq!(splits.train.sample_shape(), [1, 4, 6]);
    }
    let channels = load_from(&directory, &json!({"images": "channels"})).expect("it is right");
    assert_eq!(channels.train.sample_shape(), [2, 4, 3]);
}

#[test]
fn classes_keep_their_shares_on_request() {
    let directory = directory();
    let labels = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    std::fs::write(directory.path().join("unequal"), idx(&[10], &labels)).expect("written");
    let keys = json!({"labels": "unequal", "val": {"fraction": 0.5}, "stratified": true});
    let splits = load_from(&directory, &keys).expect("it is right");
    for data in [Some(splits.train), splits.val].into_iter().flatten() {
        let batch = data.gather(&[0, 1, 2, 3, 4], 0).expect("five samples");
        let targets = batch.targets.to_vec1::<u32>().expect("whole numbers");
        assert_eq!(targets.iter().sum::<u32>(), 1, "one of five is of class 1");
    }
}

#[test]
fn what_does_not_fit_together_is_reported() {
    let directory = directory();
    let place = |name: &str| directory.path().join(name).display().to_string();
    for (keys, words) in [
        (json!({"labels": "nine"}), ["has 10 images", "has 9 labels"]),
        (
            json!({"labels": "nine"}),
            [&place("images"), &place("nine")],
        ),
        (
            json!({"labels": "late"}),
            ["label 9 in", "is 200, but there are 10 classes"],
        ),
        (
            json!({"classes": ["a"]}),
            ["label 1 in", "is 1, but there are 1 classes"],
        ),
        (
            json!({"val": {"images": "turned", "labels": "labels"}}),
            [&place("turned"), "the shape [1, 6, 4]"],
        ),
        (
            json!({"test": {"images": "nowhere", "labels": "labels"}}),
            [&place("nowhere"), "no such file"],
        ),
        (
            json!({"val": {"count": 6}, "test": {"fraction": 0.4}}),
            ["of 10 samples 6 are", "lower `data.val`"],
        ),
        (
            json!({"images": "labels"}),
            [&place("labels"), "exchanged?"],
        ),
    ] {
        let error = load_from(&directory, &keys).err().expect("it is wrong");
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{keys}: {text}");
        }
    }
}

#[test]
fn the_digits_need_no_validation_and_no_test() {
    let config = json!({"kind": "synthetic-digits", "train": 20, "val": 0, "test": 5});
    let config = serde_json::from_value(config).expect("a config");
    let splits = load(&config, Path::new(""), 1).expect("data");
    assert_eq!(sizes(&splits), [20, 0, 5]);
    assert!(splits.val.is_none());
}

#[test]
fn images_without_targets_need_no_labels() {
    let directory = directory();
    let none = json!({"targets": "none", "labels": null, "val": {"count": 2}});
    let splits = load_from(&directory, &none).expect("it is right");
    assert_eq!(sizes(&splits), [8, 2, 0]);
    assert_eq!(splits.preprocessing.targets(), Targets::None);
    for data in [&splits.train, splits.val.as_ref().expect("it is there")] {
        assert_eq!(data.targets(), &Targets::None);
        assert!(!data.has_targets() && data.class_of(0).is_none());
        let targets = data.gather(&[1, 0], 0).expect("a batch").targets;
        assert_eq!(targets.to_vec1::<u32>().expect("zeros"), [0, 0]);
    }
    // Labels that are there are not targets.
    let unused = load_from(&directory, &json!({"targets": "none"})).expect("it is right");
    let targets = unused.train.gather(&[5], 0).expect("a batch").targets;
    assert_eq!(targets.to_vec1::<u32>().expect("zeros"), [0]);
    let error = load_from(&directory, &json!({"labels": null})).err();
    let error = error.expect("it is wrong").to_string();
    assert!(error.contains("`\"targets\": \"none\"`"), "{error}");
}

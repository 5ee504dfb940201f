//! Texts, their parts, their windows, and errors in them.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tests::real_data::real_file;
use crate::{DataConfig, DataError, Dataset, Inputs, Splits, Targets};

fn directory(files: &[(&str, &[u8])]) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    for (name, content) in files {
        std::fs::write(directory.path().join(name), content).expect("written");
    }
    directory
}

fn load(directory: &Path, keys: &Value) -> Result<Splits, DataError> {
    let mut config = json!({"kind": "text", "file": "text"});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config: DataConfig = serde_json::from_value(config).expect("a config");
    crate::load(&config, directory, 1)
}

/// Returns all samples with their targets, as text.
fn samples(dataset: &dyn Dataset) -> Vec<(String, String)> {
    let vocabulary = dataset.vocabulary().expect("a vocabulary");
    let indices = crate::order::natural(dataset.len());
    let batch = dataset.gather(&indices, 0).expect("a batch");
    let texts = |tensor: &candle_core::Tensor| -> Vec<String> {
        let rows: Vec<Vec<u32>> = tensor.to_vec2().expect("tokens");
        rows.iter().map(|row| vocabulary.decode(row)).collect()
    };
    let inputs = texts(&batch.inputs).into_iter();
    inputs.zip(texts(&batch.targets)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(a, b): &(&str, &str)| (a.to_owned(), b.to_owned());
    expected.iter().map(owned).collect()
}

#[test]
fn windows_have_the_next_token_as_their_target() {
    let directory = directory(&[("text", b"abcdefghij")]);
    let splits = load(directory.path(), &json!({"context": 3})).expect("data");
    let train = splits.train.as_ref();
    let expected = [("abc", "bcd"), ("def", "efg"), ("ghi", "hij")];
    assert_eq!(samples(train), pairs(&expected));
    assert_eq!(train.sample_shape(), [3]);
    assert_eq!(train.inputs(), Inputs::Tokens(256));
    assert!(matches!(train.targets(), Targets::ClassPerPosition(names) if names.len() == 256));
    assert_eq!(
        train.describe(),
        ["10 bytes, 256 kinds", "windows of 3, every 3"]
    );

    let keys = json!({"context": 4, "stride": 2, "unit": "char"});
    let splits = load(directory.path(), &keys).expect("data");
    let expected = [("abcd", "bcde"), ("cdef", "defg"), ("efgh", "fghi")];
    assert_eq!(samples(splits.train.as_ref()), pairs(&expected));
    assert_eq!(splits.train.inputs(), Inputs::Tokens(10));
    let error = splits
        .train
        .gather(&[0, 3], 0)
        .expect_err("there are three");
    assert!(matches!(error, DataError::Index { index: 3, count: 3 }));
}

#[test]
fn parts_are_in_order_and_share_nothing() {
    let content = "äbcäbcäbcäbcäbcäbcäb";
    let directory = directory(&[("text", content.as_bytes()), ("own", "cbä".as_bytes())]);
    let keys = json!({
        "unit": "char", "context": 1, "stride": 4,
        "val": {"fraction": 0.2}, "test": {"fraction": 0.1},
    });
    let splits = load(directory.path(), &keys).expect("data");
    assert_eq!(splits.train.len(), 4, "14 characters");
    let val = samples(splits.val.expect("a validation").as_ref());
    // Characters 14 to 17: each is a target once, whatever the training stride.
    assert_eq!(val, pairs(&[("c", "ä"), ("ä", "b"), ("b", "c")]));
    let test = samples(splits.test.expect("a test").as_ref());
    assert_eq!(test, pairs(&[("ä", "b")]));

    let keys = json!({"unit": "char", "context": 2, "test": {"file": "own"}});
    let splits = load(directory.path(), &keys).expect("data");
    assert_eq!(splits.train.len(), 9, "the whole file");
    assert!(splits.val.is_none());
    let test = splits.test.expect("a test");
    assert_eq!(samples(test.as_ref()), pairs(&[("cb", "bä")]));
    // Opened for predictions.
    let opened = splits.preprocessing.open(&directory.path().join("own"));
    let opened = opened.expect("data").samples;
    assert_eq!(samples(opened.as_ref()), samples(test.as_ref()));
}

#[test]
fn many_kinds_of_characters_are_not_cut_off() {
    let text: String = (0..600)
        .filter_map(|i| char::from_u32(0x4e00 + i))
        .collect();
    let directory = directory(&[("text", text.as_bytes())]);
    let keys = json!({"unit": "char", "context": 599});
    let splits = load(directory.path(), &keys).expect("data");
    let [(inputs, targets)] = &samples(splits.train.as_ref())[..] else {
        panic!("one sample");
    };
    assert_eq!(
        format!("{inputs}{}", targets.chars().last().expect("one")),
        text
    );
}

#[test]
fn what_is_wrong_is_reported_with_its_place() {
    let directory = directory(&[
        ("text", "one\ntwo\nthreé x".as_bytes()),
        ("latin", b"ab\ncd\xe9f"),
        ("own", "ono\nthé one z".as_bytes()),
    ]);
    let place = |name: &str| format!("`{}`", directory.path().join(name).display());
    let char_and = |key: &str, value: Value| json!({"unit": "char", "context": 2, key: value});
    for (keys, words) in [
        (json!({"file": "nowhere"}), vec!["no such file", "nowhere"]),
        (
            json!({"context": 16}),
            vec![
                "the training's text in",
                &place("text"),
                "has 16 bytes",
                "needs 17",
            ],
        ),
        (
            json!({"unit": "char", "context": 15}),
            vec!["has 15 characters", "lower `data.context`"],
        ),
        (
            json!({"context": 4, "val": {"fraction": 0.25}}),
            vec!["the validation's text in", "has 4 bytes"],
        ),
        (
            json!({"context": 1, "val": {"fraction": 0.5}, "test": {"fraction": 0.5}}),
            vec!["the training's text in", "has 0 bytes"],
        ),
        (
            char_and("file", json!("latin")),
            vec![&place("latin"), "line 2, column 3", "`\"unit\": \"byte\"`"],
        ),
        (
            char_and("val", json!({"file": "own"})),
            vec![
                &place("own"),
                "line 2, column 9",
                "'z'",
                "`\"unit\": \"byte\"`",
            ],
        ),
        (
            char_and("val", json!({"fraction": 0.2})),
            vec![&place("text"), "line 3, column 5", "'é'"],
        ),
        (
            char_and("val", json!({})),
            vec!["`data.val` must have exactly one of `fraction` and `file`"],
        ),
        (
            char_and("test", json!({"fraction": 0.1, "file": "own"})),
            vec!["`data.test` must have exactly one of"],
        ),
        (
            char_and("test", json!({"fraction": 1.0})),
            vec!["`data.test.fraction` must be above 0 and below 1"],
        ),
        (
            json!({"context": 0}),
            vec!["`data.context` must be at least 1"],
        ),
        (
            json!({"stride": 0}),
            vec!["`data.stride` must be at least 1"],
        ),
    ] {
        let error = load(directory.path(), &keys).err().expect("it is wrong");
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{keys}: {text}");
        }
    }
}

#[test]
fn shakespeare_comes_back_whole() {
    let Some(file) = real_file("tinyshakespeare.txt") else {
        return;
    };
    let content = std::fs::read_to_string(&file).expect("text");
    let keys = json!({
        "file": file, "unit": "char", "context": 128,
        "val": {"fraction": 0.1}, "test": {"fraction": 0.05},
    });
    let splits = load(Path::new(""), &keys).expect("data");
    let [train, val, test] = [Some(splits.train), splits.val, splits.test].map(|part| {
        let part: Arc<dyn Dataset> = part.expect("a part");
        let inputs = samples(part.as_ref()).into_iter().map(|(inputs, _)| inputs);
        (part, inputs.collect::<String>())
    });
    assert_eq!(train.0.inputs(), Inputs::Tokens(65));
    assert!(content.starts_with(&train.1) && content.contains(&val.1) && content.contains(&test.1));
    let covered = train.1.len() + val.1.len() + test.1.len();
    assert!(
        content.len() - covered <= 3 * 129,
        "{covered} of {}",
        content.len()
    );
}

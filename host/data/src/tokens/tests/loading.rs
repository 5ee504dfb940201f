//! The data kind `tokens`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{gpt2, json_of, write};
use crate::preprocessing::Preprocessing;
use crate::{
    DataConfig, DataError, Dataset, Inputs, Splits, Targets, TokenTargets, TokenizeOptions, order,
    tokenize,
};

fn load(directory: &Path, keys: &Value) -> Result<Splits, DataError> {
    let mut config = json!({"kind": "tokens", "context": 3});
    for (key, value) in keys.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let config: DataConfig = serde_json::from_value(config).expect("a config");
    crate::load(&config, directory, 1)
}

fn u16s(numbers: impl IntoIterator<Item = u16>) -> Vec<u8> {
    numbers.into_iter().flat_map(u16::to_le_bytes).collect()
}

fn npy(descr: &str, shape: &str, content: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(content);
    bytes
}

/// Inputs and targets of all samples.
fn samples(dataset: &dyn Dataset, epoch: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let batch = dataset
        .gather(&order::natural(dataset.len()), epoch)
        .expect("a batch");
    let rows = |tensor: &candle_core::Tensor| tensor.to_vec2().expect("tokens");
    rows(&batch.inputs)
        .into_iter()
        .zip(rows(&batch.targets))
        .collect()
}

#[test]
fn windows_go_on_over_files_and_begin_elsewhere_in_each_epoch() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "a.bin", u16s(0..10));
    let rest: Vec<u8> = (10..40_u32).flat_map(u32::to_be_bytes).collect();
    write(directory.path(), "b.npy", npy(">u4", "(30,)", &rest));
    let keys = json!({"files": ["a.bin", "b.npy"], "vocabulary": 40, "val": {"fraction": 0.25}});
    let splits = load(directory.path(), &keys).expect("data");
    let train = splits.train.as_ref();
    assert_eq!(train.inputs(), Inputs::Tokens(40));
    let targets = TokenTargets {
        vocabulary: 40,
        are_masked: false,
    };
    assert_eq!(train.targets(), &Targets::TokenPerPosition(targets));
    // Thirty tokens: nine windows, whatever the offset.
    assert_eq!(train.len(), 9);
    let mut offsets = Vec::new();
    for epoch in 0..20 {
        let found = samples(train, epoch);
        let offset = found[0].0[0];
        for (index, (inputs, targets)) in (0..).zip(&found) {
            let start = offset + index * 3;
            assert_eq!(*inputs, [start, start + 1, start + 2]);
            assert_eq!(*targets, [start + 1, start + 2, start + 3]);
        }
        assert!(offset < 3 && found[8].1[2] < 30);
        assert_eq!(found, samples(train, epoch));
        offsets.push(offset);
    }
    for offset in 0..3 {
        assert!(offsets.contains(&offset), "{offsets:?}");
    }
    let plain = train.plain().expect("windows without offsets");
    assert_eq!(samples(plain.as_ref(), 3)[0].0, [0, 1, 2]);
    assert!(plain.plain().is_none());
    let val = splits.val.expect("a validation");
    assert_eq!(samples(val.as_ref(), 5).len(), 3);
    assert_eq!(samples(val.as_ref(), 5)[0].0, [30, 31, 32]);
    assert!(train.gather(&[9], 0).is_err());
    let described = train.describe().join("\n");
    assert!(
        described.contains("30 tokens of 40 kinds in 2 files"),
        "{described}"
    );
}

#[test]
fn documents_are_kept_apart() {
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), "a.bin", u16s([1, 2, 9, 3, 9, 4, 5, 6, 7]));
    let keys = |documents: &str| json!({"files": ["a.bin"], "vocabulary": 10, "context": 4, "documents": documents});
    let error = load(directory.path(), &keys("separate"))
        .err()
        .expect("no end");
    assert!(error.to_string().contains("`data.end`"), "{error}");
    let mut keys = keys("separate");
    keys["end"] = json!(9);
    let data = load(directory.path(), &keys).expect("data");
    assert_eq!(data.train.targets().ignored(), Some(TokenTargets::IGNORED));
    let plain = data.train.plain().expect("windows without offsets");
    let batch = plain.gather(&[0], 0).expect("a batch");
    assert!(batch.visibility.is_some());
    let ignored = TokenTargets::IGNORED;
    assert_eq!(samples(plain.as_ref(), 0)[0].1, [2, 9, ignored, 9]);
    // So are those that the trained model is given.
    let others = data.preprocessing.open(&directory.path().join("a.bin"));
    let others = others.expect("tokens").samples;
    let batch = others.gather(&[0], 0).expect("a batch");
    assert!(batch.visibility.is_some());
}

#[test]
fn what_is_wrong_is_reported_with_file_and_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    write(path, "a.bin", u16s(0..10));
    write(path, "odd.bin", [1, 2, 3]);
    // Far from both ends of the file, which are compared with the vocabulary first.
    let middle = (0..200_000_u32).map(|at| if at == 100_000 { 500 } else { 7 });
    write(path, "middle.bin", u16s(middle));
    write(path, "float.npy", npy("<f4", "(1,)", &[0; 4]));
    write(path, "square.npy", npy("<u2", "(2, 2)", &[0; 8]));
    write(
        path,
        "short.npy",
        npy("<u2", "(9223372036854775808,)", &[0; 8]),
    );
    write(path, "none.bin", []);
    fs::create_dir(path.join("empty")).expect("made");
    let index = path.join("index");
    fs::create_dir(&index).expect("made");
    write(&index, "tokens.json", "{\"format\": 1}");
    let of = |files: Value| json!({"files": files, "vocabulary": 10});
    for (keys, words) in [
        (
            json!({"files": ["a.bin"]}),
            vec!["`data.vocabulary`", "sconce tokenize"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 9}),
            vec!["a.bin", "token 9", "byte 18", "0 to 8"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 0}),
            vec!["must be from 1"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 10, "context": 10}),
            vec!["training tokens have 10", "needs 11"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 10, "context": 0}),
            vec!["at least 1"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 10, "val": {}}),
            vec!["exactly one of `fraction` and `files`"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 10, "val": {"fraction": 1.5}}),
            vec!["below 1"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": 10, "val": {"files": []}}),
            vec!["`data.val.files`"],
        ),
        (
            json!({"files": ["a.bin"], "vocabulary": "nowhere.json"}),
            vec!["nowhere.json", "no such file"],
        ),
        (of(json!([])), vec!["`data.files`"]),
        (of(json!(["nowhere.bin"])), vec!["no such file"]),
        (
            of(json!(["odd.bin"])),
            vec!["odd.bin", "3 bytes", "data.dtype"],
        ),
        (of(json!(["none.bin"])), vec!["have 0"]),
        (of(json!(["float.npy"])), vec!["float.npy", "u16 and u32"]),
        (of(json!(["square.npy"])), vec!["[2, 2]"]),
        (of(json!(["short.npy"])), vec!["short.npy", "truncated"]),
        (of(json!(["empty"])), vec!["tokens.json", "sconce tokenize"]),
        (of(json!(["index"])), vec!["tokens.json", "missing field"]),
    ] {
        let error = load(path, &keys).err().expect("it is wrong").to_string();
        for word in words {
            assert!(error.contains(word), "{keys}: {error}");
        }
    }
    let data = load(path, &of(json!(["middle.bin"]))).expect("its ends are right");
    let all = order::natural(data.train.len());
    let error = data.train.gather(&all, 0).expect_err("the middle is not");
    assert!(
        error.to_string().contains("token 500 at byte 200000"),
        "{error}"
    );
}

#[test]
fn directories_of_tokens_say_what_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let text = write(
        path,
        "a.txt",
        "Before we proceed any further, hear me speak. ".repeat(20),
    );
    let options = TokenizeOptions {
        output: path.join("tokens"),
        field: "text".to_owned(),
        end: Some(0),
        threads: 1,
    };
    tokenize(&gpt2(), std::slice::from_ref(&text), &options, |_, _| ()).expect("tokens");
    let splits = load(path, &json!({"files": ["tokens"]})).expect("data");
    assert_eq!(splits.train.inputs(), Inputs::Tokens(320));
    let bytes = splits.train.class_bytes().expect("known");
    assert_eq!((bytes.len(), bytes[0]), (320, 0));
    // A model's vocabulary may be larger than its tokenizer's, not smaller.
    let padded = load(path, &json!({"files": ["tokens"], "vocabulary": 384})).expect("data");
    assert_eq!(padded.train.class_bytes().expect("known").len(), 384);
    assert!(load(path, &json!({"files": ["tokens"], "vocabulary": 256})).is_err());

    // What is kept with a model reads text, tokens and directories alike.
    let files = splits.preprocessing.to_files();
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["preprocessing.json", "tokenizer.json"]);
    let read = |name: &str| {
        let found = files.iter().find(|(known, _)| *known == name);
        Ok(found.expect("a known name").1.clone())
    };
    let kept = Preprocessing::from_files(read).expect("the same");
    assert_eq!(kept, *splits.preprocessing);
    assert!(kept.tokenizer().is_some());
    let windows = |source: &Path| {
        let opened = kept.open(source).expect("data").samples;
        samples(opened.as_ref(), 0)
    };
    let expected = windows(&path.join("tokens"));
    assert_eq!(windows(&path.join("tokens").join("a.bin")), expected);
    let changed = |name: &str| {
        let mut bytes = read(name)?;
        if name == "tokenizer.json" {
            bytes.push(b' ');
        }
        Ok(bytes)
    };
    let error = Preprocessing::from_files(changed).expect_err("another tokenizer");
    assert!(error.to_string().contains("another tokenizer"), "{error}");

    // Names lead out of no directory.
    let index = path.join("tokens").join("tokens.json");
    let content = fs::read_to_string(&index).expect("an index");
    fs::write(&index, content.replace("\"a.bin\"", "\"../a.bin\"")).expect("written");
    let error = load(path, &json!({"files": ["tokens"]}))
        .err()
        .expect("outside");
    assert!(
        error.to_string().contains("not the name of a file"),
        "{error}"
    );
    // A tokenizer that is not the tokens'.
    fs::write(&index, content).expect("written");
    let other = serde_json::to_vec(&json_of("llama")).expect("JSON");
    fs::write(path.join("tokens").join("tokenizer.json"), other).expect("written");
    let error = load(path, &json!({"files": ["tokens"]}))
        .err()
        .expect("another");
    assert!(error.to_string().contains("another tokenizer"), "{error}");
}

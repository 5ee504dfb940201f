//! What was learnt comes back from its file and prepares other data to the same bits; damaged files are refused.

use std::io;

use serde_json::{Value, json};

use super::*;
use crate::tests::golden::{fitted, input, mixed_files};
use crate::tests::on_demand::{batch, in_memory, load, on_demand};

/// Writes and reads a preprocessing, after `edit` changed what is written.
fn edited(
    learnt: &Preprocessing,
    edit: impl FnOnce(&mut Value),
) -> Result<Preprocessing, PreprocessingError> {
    let [(name, bytes)] = &learnt.to_files()[..] else {
        panic!("one file");
    };
    let mut file: Value = serde_json::from_slice(bytes).expect("JSON");
    edit(&mut file);
    Preprocessing::from_files(|wanted| {
        assert_eq!(wanted, *name);
        Ok(serde_json::to_vec(&file)?)
    })
}

#[test]
fn files_opened_by_what_was_kept_have_the_same_bits() {
    let directory = mixed_files();
    for config in on_demand().into_iter().chain(in_memory()).chain(fitted()) {
        let learnt = load(&config, None, directory.path()).preprocessing;
        let kept = edited(&learnt, |_| {}).expect("it is right");
        // But for the hashes of a table's rows, which are in a file of their own.
        assert_eq!(kept.to_files(), learnt.to_files(), "{config}");
        assert!(!kept.describe_inputs().is_empty());
        let splits = load(&config, None, directory.path());
        let train = splits.train.as_ref();
        assert_eq!(kept.sample_shape(), train.sample_shape(), "{config}");
        assert_eq!(
            (kept.inputs(), &kept.targets()),
            (train.inputs(), train.targets())
        );
        assert_eq!(kept.vocabulary(), train.vocabulary());
        let Some(input) = input(&config) else {
            continue;
        };
        let open = |learnt: &Preprocessing| {
            let opened = learnt.open(&directory.path().join(input));
            let samples = opened.expect("it is right").samples;
            let all: Vec<u32> = (0..samples.len() as u32).collect();
            batch(samples.as_ref(), &all, 0)
        };
        assert_eq!(open(&kept), open(&learnt), "{config}");
    }
}

/// Learnt from a table, images, arrays and text.
fn all_kinds() -> Vec<Preprocessing> {
    let directory = mixed_files();
    let configs = [
        json!({"kind": "csv", "file": "mixed.csv", "target": "y", "on_missing": "most-frequent"}),
        json!({"kind": "image-folder", "directory": "train", "size": [5, 6]}),
        json!({"kind": "npy", "inputs": "x.npy", "standardise": true}),
        json!({"kind": "text", "file": "text", "unit": "char", "context": 7}),
        json!({"kind": "two-moons", "train": 3}),
    ];
    let learnt = configs.iter();
    let learnt = learnt.map(|config| load(config, None, directory.path()).preprocessing);
    learnt.map(|learnt| learnt.as_ref().clone()).collect()
}

/// Asserts that files with one value changed are refused: the path of the value, its replacement, words of the error.
fn assert_refused(learnt: &Preprocessing, edits: &[(&str, Value, &str)]) {
    for (path, value, words) in edits {
        let result = edited(learnt, |file| {
            let value_at = file.pointer_mut(&format!("/preprocessing{path}"));
            *value_at.expect(path) = value.clone();
        });
        let error = result.expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
        assert!(
            error.starts_with("`preprocessing.json` is damaged"),
            "{error}"
        );
    }
}

#[test]
fn tables_that_contradict_themselves_are_refused() {
    assert_refused(
        &all_kinds()[0],
        &[
            ("/csv/width", json!(3), "`width` is 3"),
            ("/csv/format/delimiter", json!("\""), "delimiter"),
            ("/csv/encoder/columns/0/deviation", json!("0"), "above 0"),
            ("/csv/encoder/columns/0/mean", json!("NaN"), "not finite"),
            ("/csv/encoder/columns/0/mean", json!("x"), "invalid float"),
            ("/csv/encoder/columns/1/counts", json!([1]), "counts of 1"),
            (
                "/csv/encoder/columns/1/categories",
                json!(["a", "a"]),
                "twice",
            ),
            (
                "/csv/encoder/columns/1/missing",
                json!({"as": "pink"}),
                "`pink`, which is not one",
            ),
            (
                "/csv/encoder/columns/1/name",
                json!("x"),
                "`x` is listed twice",
            ),
            (
                "/csv/target/columns",
                json!(["a", "b"]),
                "classes of one column",
            ),
            (
                "/csv/target/targets",
                json!({"classes": []}),
                "at least one name",
            ),
        ],
    );
}

#[test]
fn other_kinds_that_contradict_themselves_are_refused() {
    let kinds = all_kinds();
    let statistics = json!({"mean": ["1"], "deviation": ["1"]});
    assert_refused(
        &kinds[1],
        &[
            (
                "/images/statistics/mean",
                json!(["1", "2"]),
                "more or fewer",
            ),
            ("/images/statistics", statistics, "statistics of 1"),
            (
                "/images/statistics/deviation",
                json!(["1", "2", "-1"]),
                "above 0",
            ),
            (
                "/images/format/files/size",
                json!([0, 5]),
                "the shape [3, 0, 5]",
            ),
            (
                "/images/format/files/size",
                json!([4_294_967_295_u32, 9]),
                "the shape",
            ),
            ("/images/classes", json!([]), "no classes"),
        ],
    );
    assert_refused(
        &kinds[2],
        &[
            (
                "/arrays/shape",
                json!([5]),
                "5 elements, but there are statistics of 4",
            ),
            ("/arrays/shape", json!([usize::MAX, 2]), "the shape"),
            ("/arrays/targets", json!({"numbers": ["a"]}), "need 4 names"),
        ],
    );
    assert_refused(
        &kinds[3],
        &[
            ("/text/context", json!(0), "from 1 to 1000000, found 0"),
            ("/text/vocabulary/characters", json!("ba"), "sorted"),
        ],
    );
    assert_refused(
        &kinds[4],
        &[("/generated/shape", json!([usize::MAX, 2]), "the shape")],
    );
}

#[test]
fn unknown_keys_and_newer_files_are_refused() {
    for learnt in all_kinds() {
        let result = edited(&learnt, |file| {
            file["format"] = json!(9);
            file["preprocessing"] = json!({"hologram": {"new": true}});
            file["least_reader"] = json!(8);
        });
        let error = result.expect_err("it is newer").to_string();
        assert!(
            error.contains("format 9, which readers of format 8"),
            "{error}"
        );
        let result = edited(&learnt, |file| file["surprise"] = json!(1));
        let error = result.expect_err("a key is unknown").to_string();
        assert!(error.contains("unknown field `surprise`"), "{error}");
        let kinds = serde_json::to_value(&learnt.transform).expect("JSON");
        let kind = kinds.as_object().and_then(|kinds| kinds.keys().next());
        let kind = kind.expect("a kind").clone();
        let result = edited(&learnt, |file| {
            file["preprocessing"][&kind]["odd"] = json!(1);
        });
        let error = result.expect_err("a key is unknown").to_string();
        assert!(error.contains("unknown field `odd`"), "{error}");
        assert!(
            error.contains(&format!("at `preprocessing.{kind}")),
            "{error}"
        );
    }
}

#[test]
fn cut_and_extended_files_are_refused() {
    let [table, ..] = &all_kinds()[..] else {
        panic!("there are several");
    };
    let [(name, bytes)] = &table.to_files()[..] else {
        panic!("one file");
    };
    assert_eq!(*name, "preprocessing.json");
    for length in (0..bytes.len() - 1).step_by(7) {
        let cut = &bytes[..length];
        let result = Preprocessing::from_files(|_| Ok(cut.to_vec()));
        assert!(result.is_err(), "{length} bytes");
    }
    let twice = [&bytes[..], bytes].concat();
    let error = Preprocessing::from_files(|_| Ok(twice.clone())).expect_err("it is too long");
    assert!(error.to_string().contains("trailing characters"), "{error}");
    let missing = Preprocessing::from_files(|_| Err(io::ErrorKind::NotFound.into()));
    let error = missing.expect_err("there is none").to_string();
    assert!(
        error.starts_with("can't read `preprocessing.json`"),
        "{error}"
    );
}

/// The sections `split` and `data` of the file that is written for a configuration.
fn sections(config: &Value, directory: &std::path::Path) -> (Value, Value) {
    let learnt = load(config, None, directory).preprocessing;
    let kept = edited(&learnt, |_| {}).expect("it is right");
    assert_eq!(kept.source.split, learnt.source.split, "{config}");
    for file in &learnt.source.files {
        assert!(kept.source.same_file(file).is_some(), "{config}");
    }
    let [(_, bytes)] = &learnt.to_files()[..] else {
        panic!("one file");
    };
    let file: Value = serde_json::from_slice(bytes).expect("JSON");
    (file["split"].clone(), file["data"].clone())
}

#[test]
fn how_the_data_were_divided_is_kept_with_the_files_that_were_read() {
    let directory = mixed_files();
    let path = directory.path();
    let of = |config: Value| sections(&config, path);
    let table = json!({"kind": "csv", "file": "mixed.csv", "target": "y", "stratified": true, "split_seed": 7,
        "val": {"count": 8}, "test": {"count": 4}});
    let (split, data) = of(table.clone());
    assert_eq!(
        (&split["seed"], &split["stratified"], &split["grouped"]),
        (&json!(7), &json!(true), &Value::Null)
    );
    assert_eq!(split["rows"], json!({"train": 28, "val": 8, "test": 4}));
    assert_eq!(split["hash_of"], "rows");
    let bytes = std::fs::read(path.join("mixed.csv")).expect("the table");
    let hash = crate::ContentHash::of(&bytes).to_string();
    assert_eq!(data[0]["name"], "mixed.csv");
    assert_eq!(
        (&data[0]["bytes"], &data[0]["hash"]),
        (&json!(bytes.len()), &json!(hash))
    );

    // Other rows have other hashes; the same ones in another order have the same, whoever drew them.
    let other = edit(&table, "split_seed", json!(8));
    for part in ["train", "val", "test"] {
        assert!(split["hash"][part].is_string(), "{split}");
        assert_ne!(of(other.clone()).0["hash"][part], split["hash"][part]);
    }

    let folds =
        json!({"kind": "csv", "file": "mixed.csv", "target": "y", "val": {"fold": 2, "folds": 5}});
    assert_eq!(of(folds).0["fold"], json!([2, 5]));
    let groups = json!({"kind": "csv", "file": "mixed.csv", "target": "y", "group": "c", "on_missing": "most-frequent",
        "val": {"count": 9}});
    assert_eq!(of(groups).0["grouped"], true);

    let images =
        json!({"kind": "image-folder", "directory": "train", "size": [5, 6], "val": {"count": 2}});
    let (split, data) = of(images);
    assert_eq!(split["hash_of"], "positions");
    assert!(split["hash"]["val"].is_string(), "{split}");
    assert!(data[0]["files"].is_u64(), "{data}");

    // In order, and generated: nothing is drawn.
    for config in [
        json!({"kind": "text", "file": "text", "unit": "char", "context": 7, "val": {"fraction": 0.2}}),
        json!({"kind": "two-moons", "train": 3, "val": 2}),
    ] {
        let (split, data) = of(config.clone());
        for key in ["seed", "hash", "hash_of"] {
            assert!(split[key].is_null(), "{config}: {split}");
        }
        assert!(split["rows"]["val"].is_u64(), "{split}");
        assert_eq!(data.is_null(), config["kind"] == "two-moons", "{data}");
    }
}

fn edit(config: &Value, key: &str, value: Value) -> Value {
    let mut config = config.clone();
    config[key] = value;
    config
}

/// As every model that was written before there were these sections.
#[test]
fn a_file_without_its_data_is_read() {
    let learnt = &all_kinds()[0];
    let kept = edited(learnt, |file| {
        let file = file.as_object_mut().expect("an object");
        assert!(file.remove("split").is_some() && file.remove("data").is_some());
    });
    let kept = kept.expect("it is right");
    assert_eq!(kept.transform, without_rows(learnt).transform);
    assert_eq!(kept.source, TrainingData::default());
    assert_eq!(kept.source.rows_name(), None);
}

fn without_rows(learnt: &Preprocessing) -> Preprocessing {
    edited(learnt, |_| {}).expect("it is right")
}

#[test]
fn rows_of_other_data_and_damaged_sections_are_refused() {
    let directory = mixed_files();
    let config = json!({"kind": "csv", "file": "mixed.csv", "target": "y", "val": {"count": 8}, "split_seed": 1});
    let other = edit(&config, "split_seed", json!(2));
    let [learnt, other] =
        [&config, &other].map(|config| load(config, None, directory.path()).preprocessing);
    let rows = |learnt: &Preprocessing| learnt.split_rows().expect("rows").to_bytes();
    let kept = without_rows(&learnt);
    assert!(kept.rows_of(&rows(&learnt)).is_ok());
    let error = kept.rows_of(&rows(&other)).expect_err("of another split");
    let error = error.to_string();
    assert!(
        error.starts_with("`rows.safetensors` is damaged"),
        "{error}"
    );
    assert!(error.contains("not those whose hashes"), "{error}");
    let names = [&learnt, &other].map(|learnt| learnt.source.rows_name().expect("a name"));
    assert_ne!(names[0], names[1]);
    assert!(names.iter().all(|name| is_rows_name(name)), "{names:?}");

    for (path, value, words) in [
        ("/split/hash/val", json!("b3:12"), "64 hexadecimal digits"),
        ("/split/hash_of", json!("moon"), "unknown variant"),
        ("/split/rows/val", json!(-1), "invalid value"),
        ("/split/rows", json!({"dev": 1}), "unknown field `dev`"),
        ("/data/0/hash", json!(7), "invalid type"),
    ] {
        let result = edited(&learnt, |file| {
            *file.pointer_mut(path).expect(path) = value.clone();
        });
        let error = result.expect_err(path).to_string();
        assert!(error.contains(words), "{path}: {error}");
    }
}

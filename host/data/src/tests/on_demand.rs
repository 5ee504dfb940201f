//! Data that are read on demand have the bits of data in memory, and a batch depends on its samples and
//! the epoch alone.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Tensor};
use image::{ImageFormat, RgbImage};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{DataConfig, Dataset, Loader, Preparation, Splits, order};

pub(crate) fn write(directory: &Path, name: &str, bytes: &[u8]) {
    let file = directory.join(name);
    fs::create_dir_all(file.parent().expect("a directory")).expect("made");
    fs::write(file, bytes).expect("written");
}

/// Numbers that look random.
fn noise(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn idx_images(count: u8, seed: u32) -> Vec<u8> {
    let header = [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 4, 0, 0, 0, 5];
    [&header[..], &noise(usize::from(count) * 20, seed)].concat()
}

fn idx_labels(count: u8) -> Vec<u8> {
    let labels = (0..count).map(|index| index % 10);
    [0, 0, 8, 1, 0, 0, 0, count]
        .into_iter()
        .chain(labels)
        .collect()
}

/// Files of every source that is read on demand: IDX files, images of several sizes and formats, texts.
pub(crate) fn files() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let at = directory.path();
    write(at, "images", &idx_images(30, 1));
    write(at, "labels", &idx_labels(30));
    write(at, "test-images", &idx_images(7, 2));
    write(at, "test-labels", &idx_labels(7));
    for folder in ["train", "own"] {
        for index in 0..12_u32 {
            let (height, width) = (6 + index % 3, 5 + index % 4);
            let bytes = noise((height * width * 3) as usize, index);
            let image = RgbImage::from_raw(width, height, bytes).expect("an image");
            let class = ["bird", "cat", "dog"][(index % 3) as usize];
            let file = at.join(format!("{folder}/{class}/{index:02}"));
            fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            let format = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Bmp];
            let saved = image.save_with_format(file, format[(index / 4) as usize]);
            saved.expect("written");
        }
    }
    let record = |index| [vec![0, index], noise(3072, index.into())].concat();
    let records: Vec<u8> = (0..20).flat_map(record).collect();
    write(at, "cifar/train.bin", &records);
    write(at, "cifar/test.bin", &records);
    let line = |row: u8| format!("{row},{},{}", row % 3, row % 2);
    let lines: Vec<String> = (0..20).map(line).collect();
    let table = format!("a,b,c\n{}\n", lines.join("\n"));
    write(at, "table.csv", table.as_bytes());
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (30, 4)}";
    let start = [
        b"\x93NUMPY\x01\x00",
        &[header.len() as u8, 0][..],
        header.as_bytes(),
    ]
    .concat();
    // Classes, too: small ones.
    let small = noise(120, 8).into_iter().map(|byte| byte % 7).collect();
    write(at, "x.npy", &[start, small].concat());
    // More characters than between two known positions, of one to four bytes each.
    let kinds = ['a', 'b', '\n', 'é', '中', '🦀', ' '];
    let text: String = noise(150_000, 5)
        .into_iter()
        .map(|byte| kinds[usize::from(byte) % kinds.len()])
        .collect();
    write(at, "text", text.as_bytes());
    let own: String = text.chars().skip(1000).take(3000).collect();
    write(at, "own-text", own.as_bytes());
    directory
}

/// Manifests of what is read on demand.
pub(crate) fn on_demand() -> Vec<Value> {
    let augment = json!({"crop": {"padding": 2}, "flip": "horizontal"});
    vec![
        json!({
            "kind": "idx", "images": "images", "labels": "labels", "augment": augment,
            "val": {"fraction": 0.2}, "stratified": true,
            "test": {"images": "test-images", "labels": "test-labels"},
        }),
        json!({
            "kind": "image-folder", "directory": "train", "size": [5, 6], "augment": augment,
            "val": {"count": 3}, "test": {"file": "own"},
        }),
        json!({
            "kind": "image-folder", "directory": "train", "size": [4, 4], "mode": "grey",
            "normalise": {"mean": [0.4], "deviation": [0.3]}, "test": {"fraction": 0.25},
        }),
        json!({"kind": "text", "file": "text", "context": 33, "val": {"fraction": 0.1}, "test": {"file": "own-text"}}),
        json!({
            "kind": "text", "file": "text", "unit": "char", "context": 700, "stride": 97,
            "val": {"fraction": 0.1}, "test": {"file": "own-text"},
        }),
    ]
}

/// Manifests of everything else.
pub(crate) fn in_memory() -> Vec<Value> {
    vec![
        json!({
            "kind": "cifar", "directory": "cifar", "version": 100, "test": {"file": "cifar/test.bin"},
            "augment": {"crop": {"padding": 4}, "flip": "vertical"},
        }),
        json!({"kind": "csv", "file": "table.csv", "target": "c"}),
        json!({"kind": "npy", "inputs": "x.npy", "targets": "x.npy", "standardise": true}),
        json!({"kind": "synthetic-digits", "train": 20, "val": 5, "test": 5, "size": 16}),
        json!({"kind": "two-moons", "train": 30}),
        json!({"kind": "regression", "train": 30}),
        json!({"kind": "grammar", "train": 30, "context": 16}),
    ]
}

pub(crate) fn load(config: &Value, memory: Option<&str>, directory: &Path) -> Splits {
    let mut config = config.clone();
    if let Some(memory) = memory {
        config["memory"] = memory.into();
    }
    let parsed: DataConfig = serde_json::from_value(config.clone()).expect("a config");
    let loaded = crate::load(&parsed, directory, 3);
    loaded.unwrap_or_else(|error| panic!("{config}: {error}"))
}

/// Training data, with and without augmentation, validation and test.
pub(crate) fn datasets(splits: &Splits) -> Vec<Arc<dyn Dataset>> {
    let all = [Some(splits.train.clone()), splits.train.plain()];
    let all = all
        .into_iter()
        .chain([splits.val.clone(), splits.test.clone()]);
    all.flatten().collect()
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    let numbers = tensor
        .to_dtype(DType::F64)
        .and_then(|tensor| tensor.flatten_all());
    let numbers = numbers.and_then(|tensor| tensor.to_vec1::<f64>());
    numbers
        .expect("numbers")
        .into_iter()
        .map(f64::to_bits)
        .collect()
}

/// The bits of a batch's inputs and targets.
pub(crate) fn batch(data: &dyn Dataset, indices: &[u32], epoch: u64) -> (Vec<u64>, Vec<u64>) {
    let batch = data.gather(indices, epoch).expect("a batch");
    assert_eq!(batch.indices, indices);
    (bits(&batch.inputs), bits(&batch.targets))
}

#[test]
fn every_sample_has_the_same_bits_in_memory_and_on_demand() {
    let directory = files();
    for config in on_demand() {
        let whole = load(&config, Some("whole"), directory.path());
        let demand = load(&config, Some("on-demand"), directory.path());
        let (whole, demand) = (datasets(&whole), datasets(&demand));
        assert_eq!(whole.len(), demand.len());
        for (whole, demand) in whole.iter().zip(&demand) {
            assert_eq!(whole.len(), demand.len());
            assert_eq!(whole.class_names(), demand.class_names());
            assert_eq!(whole.vocabulary(), demand.vocabulary());
            assert_eq!(whole.sample_shape(), demand.sample_shape());
            assert!(!whole.describe().concat().contains("read on demand"));
            for epoch in [0, 5] {
                let order = order::training(9, epoch, whole.len());
                let found = batch(demand.as_ref(), &order, epoch);
                assert_eq!(found, batch(whole.as_ref(), &order, epoch), "{config}");
            }
            let last = whole.len() as u32 - 1;
            assert_eq!(whole.origin(last), demand.origin(last));
        }
        let described: String = demand.iter().flat_map(|data| data.describe()).collect();
        assert!(described.contains("read on demand"), "{described}");
    }
}

#[test]
fn a_batch_depends_on_its_samples_and_the_epoch_alone() {
    let directory = files();
    let cases = on_demand().into_iter().flat_map(|config| {
        let whole = (config.clone(), Some("whole"));
        [whole, (config, Some("on-demand"))]
    });
    let cases = cases.chain(in_memory().into_iter().map(|config| (config, None)));
    for (config, memory) in cases {
        let one = load(&config, memory, directory.path()).train;
        let other = load(&config, memory, directory.path()).train;
        let (epoch, size) = (2, 4);
        let order = order::training(11, epoch, one.len().min(40));
        let ranges: Vec<_> = (0..order.len())
            .step_by(size)
            .map(|start| start..order.len().min(start + size))
            .collect();
        // One process gets all batches, by two threads; another one only some, in another order.
        let preparation = Preparation {
            threads: 2,
            ahead: 3,
            small: 0,
        };
        let (indices, all) = (order.clone(), ranges.clone());
        let mut loader = Loader::new(one, indices, all, epoch, preparation);
        let mut of_one = Vec::new();
        while let Some(next) = loader.next_batch() {
            let next = next.expect("a batch");
            of_one.push((bits(&next.inputs), bits(&next.targets)));
        }
        assert_eq!(of_one.len(), ranges.len());
        let last = ranges.len() - 1;
        for number in [last, 1, last / 2, last] {
            let indices = &order[ranges[number].clone()];
            let found = batch(other.as_ref(), indices, epoch);
            assert_eq!(found, of_one[number], "batch {number} of {config}");
        }
    }
}

/// Loads data on demand, has `change` change a file, and returns the error of the sample.
fn error_after(config: &Value, sample: u32, change: impl FnOnce(&Path)) -> String {
    let directory = files();
    let splits = load(config, Some("on-demand"), directory.path());
    splits.train.gather(&[sample], 0).expect("a batch");
    change(directory.path());
    let error = splits.train.gather(&[sample], 0).expect_err("it changed");
    error.to_string()
}

fn append(file: &Path) {
    let mut file = fs::File::options().append(true).open(file).expect("open");
    file.write_all(b"more").expect("written");
}

#[test]
fn files_that_change_or_vanish_are_errors_with_file_and_sample() {
    let folder = json!({"kind": "image-folder", "directory": "train", "size": [4, 4]});
    let idx = json!({"kind": "idx", "images": "images", "labels": "labels"});
    let text = json!({"kind": "text", "file": "text", "unit": "char", "context": 8});
    let cat = |directory: &Path| directory.join("train/cat/01");
    let removed = error_after(&folder, 4, |at| fs::remove_file(cat(at)).expect("removed"));
    assert!(removed.contains("sample 4 (from 0"), "{removed}");
    assert!(
        removed.contains("train/cat/01`: the file was there when"),
        "{removed}"
    );
    let truncate = |file: PathBuf| {
        let file = fs::File::options().write(true).open(file).expect("open");
        file.set_len(20).expect("truncated");
    };
    for (error, name) in [
        (error_after(&folder, 4, |at| append(&cat(at))), "cat/01"),
        (error_after(&folder, 4, |at| truncate(cat(at))), "cat/01"),
        (
            error_after(&idx, 4, |at| append(&at.join("images"))),
            "images",
        ),
        (
            error_after(&idx, 4, |at| truncate(at.join("images"))),
            "images",
        ),
        (error_after(&text, 4, |at| append(&at.join("text"))), "text"),
        (
            error_after(&text, 4, |at| truncate(at.join("text"))),
            "text",
        ),
    ] {
        assert!(error.contains("sample 4 (from 0"), "{error}");
        assert!(
            error.contains(&format!("{name}`: the file has changed")),
            "{error}"
        );
    }
}

#[test]
fn images_that_are_none_are_errors_when_they_are_read() {
    let directory = files();
    write(directory.path(), "train/dog/99", b"no image");
    let config = json!({
        "kind": "image-folder", "directory": "train", "size": [4, 4], "memory": "on-demand",
        "normalise": "none",
    });
    let splits = load(&config, None, directory.path());
    let error = splits.train.gather(&[12], 0).expect_err("it is no image");
    let error = error.to_string();
    assert!(error.contains("sample 12 (from 0"), "{error}");
    assert!(
        error.contains("dog/99`: it can't be decoded as PNG, JPEG"),
        "{error}"
    );
    let fails = |keys: &[(&str, Value)]| {
        let mut config = config.clone();
        for (key, value) in keys {
            config[*key] = value.clone();
        }
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        let error = crate::load(&config, directory.path(), 3).err();
        error.expect("it is wrong").to_string()
    };
    // Statistics of the images are computed before training, so it is found then.
    assert_eq!(fails(&[("normalise", "computed".into())]), error);
    let other = fails(&[("normalise", "computed".into()), ("size", Value::Null)]);
    assert!(
        other.contains("pixels (height × width), the first image 6 × 5"),
        "{other}"
    );

    let nothing = TempDir::new().expect("a directory");
    write(nothing.path(), "a/one", b"no image");
    write(nothing.path(), "b/two", b"no image");
    let config = json!({"kind": "image-folder", "directory": ".", "memory": "on-demand", "normalise": "none"});
    let config: DataConfig = serde_json::from_value(config).expect("a config");
    let error = crate::load(&config, nothing.path(), 3)
        .err()
        .expect("no images");
    assert!(
        error.to_string().starts_with("2 files can't be decoded"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_in_a_text_is_reported_alike() {
    let directory = TempDir::new().expect("a directory");
    // The faults are on either side of the border between two pieces.
    let mut long = "é\n".repeat(30_000);
    long.push_str(&"x".repeat(20_000));
    write(directory.path(), "long", long.as_bytes());
    write(directory.path(), "z", format!("{long}\nxz").as_bytes());
    write(
        directory.path(),
        "latin",
        &[long.as_bytes(), b"\nab\xe9c"].concat(),
    );
    write(directory.path(), "cut", &long.as_bytes()[..1]);
    write(directory.path(), "packed", b"PK\x03\x04 and more");
    for keys in [
        json!({"file": "nowhere"}),
        json!({"file": "packed"}),
        json!({"file": "."}),
        json!({"file": "latin", "unit": "char"}),
        json!({"file": "cut", "unit": "char"}),
        json!({"file": "long", "unit": "char", "val": {"file": "z"}}),
        json!({"file": "z", "unit": "char", "val": {"fraction": 0.01}}),
        json!({"file": "long", "unit": "char", "context": 90_000}),
        json!({"file": "long", "context": 200_000}),
    ] {
        let error = |memory: &str| {
            let mut config = json!({"kind": "text", "memory": memory});
            for (key, value) in keys.as_object().expect("keys") {
                config[key] = value.clone();
            }
            let config: DataConfig = serde_json::from_value(config).expect("a config");
            let error = crate::load(&config, directory.path(), 1).err();
            error
                .unwrap_or_else(|| panic!("{keys} is right"))
                .to_string()
        };
        assert_eq!(error("on-demand"), error("whole"), "{keys}");
    }
}

#[test]
fn gzipped_files_are_read_whole() {
    let directory = files();
    for name in ["images", "text"] {
        let bytes = fs::read(directory.path().join(name)).expect("read");
        let level = flate2::Compression::fast();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), level);
        packed.write_all(&bytes).expect("written");
        let packed = packed.finish().expect("packed");
        write(directory.path(), &format!("{name}.gz"), &packed);
    }
    for (plain, packed) in [
        (
            json!({"kind": "idx", "images": "images", "labels": "labels"}),
            json!({"kind": "idx", "images": "images.gz", "labels": "labels"}),
        ),
        (
            json!({"kind": "text", "file": "text"}),
            json!({"kind": "text", "file": "text.gz"}),
        ),
    ] {
        let plain = load(&plain, Some("on-demand"), directory.path()).train;
        let packed = load(&packed, Some("on-demand"), directory.path()).train;
        let indices: Vec<u32> = (0..20).collect();
        let expected = batch(plain.as_ref(), &indices, 0);
        assert_eq!(batch(packed.as_ref(), &indices, 0), expected);
        assert!(!packed.describe().concat().contains("on demand"));
    }
}

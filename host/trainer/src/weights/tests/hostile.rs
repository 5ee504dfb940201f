//! Damaged files, and such as attack who opens them: errors, and nothing is allocated beyond the file's size.

use std::path::Path;

use super::*;

fn with_header(header: &str, data: usize) -> Vec<u8> {
    let length = (header.len() as u64).to_le_bytes();
    [&length[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn headers_that_lie_are_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    let own = model(&[("a.weight", &[2])], 0.0);
    let tensor = |shape: &str, offsets: &str| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let one = |shape: &str, offsets: &str| {
        with_header(&format!(r#"{{"a.weight":{}}}"#, tensor(shape, offsets)), 8)
    };
    let two = |first: &str, second: &str| {
        let (first, second) = (tensor("[2]", first), tensor("[2]", second));
        with_header(
            &format!(r#"{{"a.weight":{first},"b.weight":{second}}}"#),
            16,
        )
    };
    for (what, bytes) in [
        (
            "a header of 2^63 bytes",
            [&(1_u64 << 63).to_le_bytes()[..], b"{}"].concat(),
        ),
        (
            "a header of 2^64 - 1 bytes",
            [&u64::MAX.to_le_bytes()[..], b"{}"].concat(),
        ),
        (
            "a header beyond the file",
            [&1000_u64.to_le_bytes()[..], b"{}"].concat(),
        ),
        ("overlapping tensors", two("[0,8]", "[4,12]")),
        ("twice the same bytes", two("[0,8]", "[0,8]")),
        ("a hole", two("[0,8]", "[12,20]")),
        ("offsets in the wrong order", one("[2]", "[8,0]")),
        ("a tensor beyond the file", one("[200]", "[0,800]")),
        ("a shape of another size", one("[3]", "[0,8]")),
        (
            "a shape that overflows",
            one("[4611686018427387904,4]", "[0,8]"),
        ),
        ("bytes after the last tensor", one("[1]", "[0,4]")),
        ("negative extents", one("[-2]", "[0,8]")),
        ("truncated", one("[2]", "[0,8]")[..60].to_vec()),
        ("no tensor", with_header(r#"{"a.weight":3}"#, 0)),
        ("deep", with_header(&"[".repeat(100_000), 0)),
    ] {
        fs_err::write(&path, bytes).expect("written");
        let error = load(&path, &own, false).expect_err(what).to_string();
        assert!(
            error.contains("is not a safetensors file"),
            "{what}: {error}"
        );
    }
    fs_err::write(&path, one("[2]", "[0,8]")).expect("written");
    load(&path, &own, true).expect("the right one");
    let half = r#"{"a.weight":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    fs_err::write(&path, with_header(half, 2)).expect("written");
    let error = load(&path, &own, true).expect_err("eight bits").to_string();
    assert!(
        error.contains("`a.weight` of") && error.contains("F8_E4M3"),
        "{error}"
    );
}

/// A directory with two shards, and their index.
fn sharded(directory: &Path) {
    let first = model(&[("a.weight", &[2])], 3.0);
    let second = model(&[("b.weight", &[3])], 4.0);
    save(&directory.join("one.safetensors"), &first).expect("saved");
    save(&directory.join("two.safetensors"), &second).expect("saved");
    index(
        directory,
        r#"{"a.weight": "one.safetensors", "b.weight": "two.safetensors"}"#,
    );
}

fn index(directory: &Path, map: &str) {
    let text = format!(r#"{{"metadata": {{"total_size": 20}}, "weight_map": {map}}}"#);
    let path = directory.join("model.safetensors.index.json");
    fs_err::write(path, text).expect("written");
}

#[test]
fn shards_are_read_by_their_index() {
    let directory = tempfile::tempdir().expect("a directory");
    sharded(directory.path());
    let own = || model(&[("a.weight", &[2]), ("b.weight", &[3])], 0.0);
    for path in [
        directory.path().to_owned(),
        directory.path().join("model.safetensors.index.json"),
    ] {
        let own = own();
        let comparison = load(&path, &own, true).expect("they fit");
        assert!(comparison.is_complete());
        assert_eq!(first(&own, "a.weight").to_bits(), 3.0_f32.to_bits());
        assert_eq!(first(&own, "b.weight").to_bits(), 4.0_f32.to_bits());
    }
    let both = r#"{"a.weight": "one.safetensors", "b.weight": "one.safetensors"}"#;
    index(directory.path(), both);
    let error = load(directory.path(), &own(), true).expect_err("it is not there");
    let error = error.to_string();
    assert!(
        error.contains("`b.weight` is not in `one.safetensors`"),
        "{error}"
    );
    fs_err::copy(
        directory.path().join("one.safetensors"),
        directory.path().join("two.safetensors"),
    )
    .expect("copied");
    let twice = r#"{"a.weight": "one.safetensors", "b.weight": "two.safetensors"}"#;
    index(directory.path(), twice);
    let error = load(directory.path(), &own(), true).expect_err("it is there twice");
    let error = error.to_string();
    assert!(
        error.contains("`a.weight` is in `one.safetensors` and in"),
        "{error}"
    );
}

#[test]
#[cfg(unix)]
fn an_index_leads_nowhere_else() {
    let around = tempfile::tempdir().expect("a directory");
    let (outside, inside) = (around.path().join("outside"), around.path().join("inside"));
    for directory in [&outside, &inside] {
        fs_err::create_dir(directory).expect("created");
    }
    sharded(&outside);
    let link = |target: &Path, name: &str| {
        fs_err::os::unix::fs::symlink(target, inside.join(name)).expect("a link");
    };
    link(&outside.join("one.safetensors"), "link.safetensors");
    link(&outside, "folder");
    let absolute = outside.join("one.safetensors");
    let own = model(&[("a.weight", &[2])], 0.0);
    for (name, words) in [
        (
            "../outside/one.safetensors",
            "not the name of a file beside it",
        ),
        (
            &absolute.to_string_lossy(),
            "not the name of a file beside it",
        ),
        ("folder/one.safetensors", "not the name of a file beside it"),
        ("..", "not the name of a file beside it"),
        ("", "not the name of a file beside it"),
        ("link.safetensors", "leads out of the directory"),
        ("gone.safetensors", "No such file"),
    ] {
        index(
            &inside,
            &serde_json::json!({ "a.weight": name }).to_string(),
        );
        let error = load(&inside, &own, false).expect_err(name).to_string();
        assert!(error.contains(words), "{name}: {error}");
        assert!(first(&own, "a.weight").abs() < f32::EPSILON);
    }
    // A cache's snapshot consists of such links.
    let model = around.path().join("models--x");
    let (blobs, snapshot) = (model.join("blobs"), model.join("snapshots/123"));
    for directory in [&blobs, &snapshot] {
        fs_err::create_dir_all(directory).expect("created");
    }
    fs_err::copy(&absolute, blobs.join("abc")).expect("copied");
    let target = Path::new("../../blobs/abc");
    fs_err::os::unix::fs::symlink(target, snapshot.join("one.safetensors")).expect("a link");
    index(&snapshot, r#"{"a.weight": "one.safetensors"}"#);
    load(&snapshot, &own, true).expect("a blob of the cache");
    assert_eq!(first(&own, "a.weight").to_bits(), 3.0_f32.to_bits());
}

#[test]
fn a_directory_of_something_else_says_what_belongs_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let own = model(&[("a.weight", &[2])], 0.0);
    let error = || {
        load(directory.path(), &own, true)
            .expect_err("nothing")
            .to_string()
    };
    assert!(error().contains("index.json"), "{}", error());
    save(&directory.path().join(RESULTS), &own).expect("saved");
    assert!(error().contains("is a run's: name its"), "{}", error());
    fs_err::write(directory.path().join("adapter_config.json"), "{}").expect("written");
    assert!(error().contains("an adapter of PEFT's"), "{}", error());
}

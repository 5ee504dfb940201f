//! Whatever data are read from: a change of any of it is noticed, by the name of the file.

use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::{ContentHash, DataFile, file_changes, listing, with_listed_members};
use crate::tests::on_demand::{files, in_memory, load, on_demand, write};

/// Manifests of data of every kind that has files, with how much is kept in memory.
fn all() -> Vec<(Value, Option<&'static str>)> {
    let mut all = Vec::new();
    for config in on_demand() {
        all.push((config.clone(), Some("whole")));
        all.push((config, Some("on-demand")));
    }
    all.extend(in_memory().into_iter().map(|config| (config, None)));
    let own = json!({
        "kind": "csv", "file": "table.csv", "target": "c",
        "val": {"file": "val.csv"}, "test": {"file": "test.csv"},
    });
    all.push((own, None));
    let arrays =
        json!({"kind": "safetensors", "file": "x.safetensors", "inputs": "x", "targets": null});
    all.push((arrays, None));
    all
}

fn more_files(at: &Path) {
    let table = fs::read(at.join("table.csv")).expect("read");
    write(at, "val.csv", &table);
    write(at, "test.csv", &[&table[..], b"7,1,0\n"].concat());
    let bytes: Vec<u8> = (0..32).collect();
    let view = TensorView::new(Dtype::F32, vec![4, 2], &bytes).expect("a tensor");
    let bytes = safetensors::serialize([("x", view)], None).expect("bytes");
    write(at, "x.safetensors", &bytes);
}

/// Changes a file so that it can still be read.
fn change(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    let name = file.to_string_lossy();
    if name.ends_with(".csv") {
        let text = String::from_utf8(bytes).expect("text");
        bytes = text.replacen("\n3,", "\n4,", 1).into_bytes();
    } else if name.contains("text") {
        let text = String::from_utf8(bytes).expect("text");
        let first = text.chars().next().expect("a character");
        bytes = format!("{}{first}", &text[first.len_utf8()..]).into_bytes();
    } else if name.contains("/train/") || name.contains("/own/") {
        // What follows an image is not looked at, and is still another file.
        bytes.push(0);
    } else if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    fs::write(file, bytes).expect("written");
}

#[test]
fn a_change_of_any_file_of_any_kind_is_noticed_by_name() {
    let directory = files();
    let at = directory.path();
    more_files(at);
    for (config, memory) in all() {
        let read = || load(&config, memory, at).files;
        let was = read();
        let generated = ["synthetic-digits", "two-moons", "regression", "grammar"];
        let is_generated = generated.contains(&config["kind"].as_str().expect("a kind"));
        assert_eq!(was.is_empty(), is_generated, "{config}");
        assert_eq!(file_changes(&was, &read()), [""; 0], "{config}");
        for file in &was {
            assert!(Path::new(&file.name).is_relative(), "{}", file.name);
            let paths: Vec<String> = match file.files {
                None => vec![file.name.clone()],
                Some(count) => {
                    let listed = listing(std::slice::from_ref(file));
                    let paths = listed.lines().map(|line| line[66..].to_owned());
                    let paths: Vec<String> = paths.collect();
                    assert_eq!(paths.len() as u64, count);
                    paths.into_iter().step_by(5).collect()
                }
            };
            for path in paths {
                let before = fs::read(at.join(&path)).expect("read");
                change(&at.join(&path));
                let told = file_changes(&was, &read());
                fs::write(at.join(&path), before).expect("written");
                let [told] = told.as_slice() else {
                    panic!("{path} of {config}: {told:?}");
                };
                let expected = match path.strip_prefix(&file.name) {
                    Some(inside) if !inside.is_empty() => {
                        format!("`{}` has changed", inside.trim_start_matches('/'))
                    }
                    _ => format!("`{path}` has changed: it was "),
                };
                assert!(told.contains(&expected), "{told}");
                assert!(told.starts_with(&format!("`{}` ", file.name)), "{told}");
            }
        }
    }
}

#[test]
fn a_file_has_the_hash_of_its_bytes() {
    let directory = files();
    more_files(directory.path());
    for (config, memory) in all() {
        for file in load(&config, memory, directory.path()).files {
            let path = directory.path().join(&file.name);
            if file.files.is_none() {
                let own = DataFile::of(&path).expect("a file");
                assert_eq!(
                    (own.hash, own.bytes),
                    (file.hash, file.bytes),
                    "{}",
                    file.name
                );
            }
        }
    }
}

#[test]
fn renamed_classes_and_swapped_files_are_noticed() {
    let directory = files();
    let at = directory.path();
    for memory in ["whole", "on-demand"] {
        let folder = json!({"kind": "image-folder", "directory": "train", "size": [4, 4]});
        let read = || load(&folder, Some(memory), at).files;
        let was = read();
        let rename = |from: &str, to: &str| {
            fs::rename(at.join(from), at.join(to)).expect("renamed");
        };
        rename("train/bird", "train/cormorant");
        let [told] = &file_changes(&was, &read())[..] else {
            panic!("one directory");
        };
        let first = "`bird/00` is gone, `bird/03` is gone, `bird/06` is gone, `bird/09` is gone, \
                     `cormorant/00` is new, and 3 more";
        assert!(told.ends_with(first), "{told}");
        rename("train/cormorant", "train/bird");

        let swap = |one: &str, other: &str| {
            rename(one, "aside");
            rename(other, one);
            rename("aside", other);
        };
        swap("train/cat/01", "train/dog/02");
        let [told] = &file_changes(&was, &read())[..] else {
            panic!("one directory");
        };
        assert!(
            told.ends_with("`cat/01` has changed, `dog/02` has changed"),
            "{told}"
        );
        swap("train/cat/01", "train/dog/02");
        assert_eq!(file_changes(&was, &read()), [""; 0]);

        let idx = json!({
            "kind": "idx", "images": "images", "labels": "labels",
            "test": {"images": "test-images", "labels": "test-labels"},
        });
        let was = load(&idx, Some(memory), at).files;
        let swapped = json!({
            "kind": "idx", "images": "test-images", "labels": "test-labels",
            "test": {"images": "images", "labels": "labels"},
        });
        swap("images", "test-images");
        swap("labels", "test-labels");
        let told = file_changes(&was, &load(&idx, Some(memory), at).files);
        assert_eq!(told.len(), 4, "{told:?}");
        // The manifest's differences say so.
        let renamed = load(&swapped, Some(memory), at).files;
        assert_eq!(file_changes(&was, &renamed).len(), 4, "names and contents");
        swap("images", "test-images");
        swap("labels", "test-labels");
    }
}

#[test]
fn a_table_written_in_another_way_has_the_same_rows() {
    let directory = files();
    let at = directory.path();
    let config = json!({"kind": "csv", "file": "table.csv", "target": "c", "columns": ["a"]});
    let read = || load(&config, None, at).files;
    let was = read();
    let table = fs::read_to_string(at.join("table.csv")).expect("read");
    for same in [
        format!("\u{feff}{table}"),
        table.replace('\n', "\r\n"),
        table.replace("0,0,0", "\"0\",0 , 0"),
        table.replace("a,b,c", "a ,b,c"),
        // A column that is not used.
        table.replace("\n5,2,", "\n5,1,"),
    ] {
        fs::write(at.join("table.csv"), same).expect("written");
        let [told] = &file_changes(&was, &read())[..] else {
            panic!("one file");
        };
        assert!(
            told.starts_with("`table.csv` has the same rows, written in"),
            "{told}"
        );
    }
    let lines: Vec<&str> = table.lines().collect();
    let mut exchanged = lines.clone();
    exchanged.swap(3, 4);
    for other in [
        table.replace("\n5,", "\n50,"),
        format!("{table}3,1,1\n"),
        exchanged.join("\n"),
    ] {
        fs::write(at.join("table.csv"), &other).expect("written");
        let told = file_changes(&was, &read());
        let start = "`table.csv` has changed: it was ";
        assert!(told.concat().starts_with(start), "{told:?}");
    }
}

#[test]
fn a_listing_gives_directories_their_files_back() {
    let directory = files();
    write(directory.path(), "train/dog/new\nline", b"P1 1 1 0");
    let folder = json!({"kind": "image-folder", "directory": "train", "size": [4, 4]});
    let was = load(&folder, Some("whole"), directory.path()).files;
    let text = listing(&was);
    let bare = |files: &[DataFile]| -> Vec<DataFile> {
        let json = serde_json::to_string(files).expect("JSON");
        serde_json::from_str(&json).expect("files")
    };
    fs::remove_file(directory.path().join("train/dog/new\nline")).expect("removed");
    let is = load(&folder, Some("whole"), directory.path()).files;
    let told = file_changes(&with_listed_members(&bare(&was), &text), &is);
    assert!(
        told.concat().ends_with("; `dog/new\nline` is gone"),
        "{told:?}"
    );
    // One that is not theirs changes nothing.
    for other in [
        String::new(),
        "x".to_owned(),
        text.replacen("dog", "dig", 1),
    ] {
        let told = file_changes(&with_listed_members(&bare(&was), &other), &is);
        let told = told.concat();
        assert!(
            told.starts_with("`train` has changed: it was 13 files"),
            "{told}"
        );
        assert!(!told.contains("is gone"), "{told}");
    }
}

#[test]
fn files_no_longer_read_or_read_for_the_first_time_are_reported_and_renamed_ones_are_not() {
    let file =
        |name: &str, content: &[u8]| DataFile::new(name.to_owned(), 1, ContentHash::of(content));
    let was = [file("a", b"1"), file("b", b"2")];
    let told = |is: &[DataFile]| file_changes(&was, is);
    assert_eq!(told(&[file("c", b"1"), file("b", b"2")]), [""; 0]);
    assert_eq!(
        told(&[file("b", b"2"), file("c", b"3")]),
        ["`a` is not read any more", "`c` was not read before"]
    );
}

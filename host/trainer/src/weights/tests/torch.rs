//! Files of PyTorch's, written by `tests/reference/torch_files.py`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Expected {
    shape: Vec<usize>,
    values: Vec<f64>,
}

fn place(name: &str) -> PathBuf {
    let files = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/reference/torch_files"
    );
    PathBuf::from(files).join(name)
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let numbers = tensor.to_dtype(DType::F64).and_then(|t| t.flatten_all());
    numbers.and_then(|t| t.to_vec1()).expect("numbers")
}

#[test]
fn tensors_of_every_layout_and_type_are_those_that_were_saved() {
    let text = fs_err::read_to_string(place("expected.json")).expect("a file");
    let all: BTreeMap<String, BTreeMap<String, Expected>> =
        serde_json::from_str(&text).expect("what was saved");
    assert_eq!(all.len(), 10);
    for (file, expected) in all {
        let found = read(&place(&file)).expect(&file);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let wanted: Vec<&str> = expected.keys().map(String::as_str).collect();
        assert_eq!(names, wanted, "{file}");
        for ((name, tensor), expected) in found.iter().zip(expected.values()) {
            assert_eq!(tensor.dims(), expected.shape, "{file}: {name}");
            assert_eq!(values(tensor), expected.values, "{file}: {name}");
        }
        // Into parameters, which are of another type than most.
        let mut own = Parameters::new(1, DType::F32, &Device::Cpu);
        for (name, expected) in &expected {
            let (kind, init) = (ParameterKind::Buffer, Init::ZEROS);
            let registered = own.register(name.clone(), &expected.shape, init, kind);
            registered.expect("a parameter");
        }
        let comparison = load(&place(&file), &own, true).expect("they fit");
        assert_eq!(comparison.matched.len(), expected.len());
        for (name, expected) in expected {
            let found = own.get(&name).expect("it is there").tensor();
            assert_eq!(values(found), expected.values, "{file}: {name}");
        }
    }
}

#[test]
fn nothing_in_a_file_is_run_and_nothing_grows_beyond_it() {
    let own = model(&[("a.weight", &[2])], 0.0);
    for (file, words) in [
        ("code.pt", "it would call `posix.system`"),
        ("code_alone.pt", "it would call `posix.system`"),
        ("code_legacy.pt", "it would call `__builtin__.eval`"),
        ("overflow.pt", "overflows"),
        ("beyond.pt", "but storage '0' declares 4"),
        ("expanded.pt", "more bytes than the whole file"),
        ("bomb_pickle.pt", "can't be read"),
        ("bomb_storage.pt", "more bytes than the whole file"),
        ("truncated.pt", "can't be read"),
        ("truncated_legacy.pt", "can't be read"),
    ] {
        let error = load(&place(file), &own, false).expect_err(file).to_string();
        assert!(error.contains(words), "{file}: {error}");
        assert!(error.contains("a file of PyTorch's"), "{file}: {error}");
    }
    assert!(!PathBuf::from("sconce-ran-a-pickle").exists());
    // The message of a file without weights says what it has.
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.pt");
    fs_err::write(&empty, b"\x80\x02}X\x05\0\0\0epochK\x03s.").expect("written");
    let error = load(&empty, &own, true)
        .expect_err("no tensors")
        .to_string();
    assert!(error.contains("at its top there are `epoch`"), "{error}");
}

//! Weights that are loaded from files of all kinds.

mod families;
mod hostile;
mod torch;
pub(crate) mod transformers;

use candle_core::{DType, Device};

use super::*;
use sconce_nn::init::Init;

fn model(names: &[(&str, &[usize])], value: f64) -> Parameters {
    let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
    for (name, shape) in names {
        let (layer, own) = name.split_once('.').expect("a dot");
        let mut scope = parameters.scope(layer);
        scope
            .parameter(own, shape, Init::Constant(value))
            .expect("a parameter");
    }
    parameters
}

fn first(parameters: &Parameters, name: &str) -> f32 {
    let tensor = parameters.get(name).expect("it is there").tensor();
    tensor
        .flatten_all()
        .and_then(|t| t.to_vec1::<f32>())
        .expect("numbers")[0]
}

#[test]
fn what_fits_is_set_and_what_does_not_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    let given = model(
        &[("a.weight", &[2, 3]), ("b.wieght", &[4]), ("c.bias", &[2])],
        5.0,
    );
    save(&path, &given).expect("saved");

    let same = model(
        &[("a.weight", &[2, 3]), ("b.wieght", &[4]), ("c.bias", &[2])],
        0.0,
    );
    let comparison = load(&path, &same, true).expect("it fits");
    assert!(comparison.is_complete());
    assert_eq!(first(&same, "c.bias").to_bits(), 5.0_f32.to_bits());

    let other = model(
        &[("a.weight", &[2, 3]), ("b.weight", &[4]), ("c.bias", &[3])],
        0.0,
    );
    let error = load(&path, &other, true)
        .expect_err("it does not fit")
        .to_string();
    for words in [
        "1 fit;",
        "1 missing: `b.weight` (the file has `b.wieght`)",
        "1 unexpected: `b.wieght`",
        "`c.bias` (the model's is [3], the file's [2])",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(
        first(&other, "a.weight").abs() < f32::EPSILON,
        "nothing is set"
    );
    let comparison = load(&path, &other, false).expect("as far as it fits");
    assert_eq!(comparison.matched, ["a.weight"]);
    assert_eq!(first(&other, "a.weight").to_bits(), 5.0_f32.to_bits());
}

#[test]
fn what_is_no_file_of_weights_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    let parameters = model(&[("a.weight", &[1])], 0.0);
    assert!(matches!(
        load(&path, &parameters, true),
        Err(WeightsError::File(_))
    ));
    fs_err::write(&path, b"no tensors in here").expect("written");
    let error = load(&path, &parameters, true)
        .expect_err("no weights")
        .to_string();
    assert!(error.contains("is not a safetensors file"), "{error}");
    let other = model(&[("b.weight", &[1])], 0.0);
    save(&path, &other).expect("saved");
    for strict in [true, false] {
        let error = load(&path, &parameters, strict).expect_err("nothing fits");
        let error = error.to_string();
        assert!(error.contains("none of the weights in"), "{error}");
        assert!(error.contains("0 fit; 1 missing: `a.weight`"), "{error}");
    }
    assert_eq!(counts(&parameters), (1, 0));
}

#[test]
fn names_get_other_prefixes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weights.safetensors");
    let names: &[(&str, &[usize])] = &[
        ("module.body.a.weight", &[2]),
        ("module.fc.weight", &[3]),
        ("module.fc.bias", &[3]),
    ];
    save(&path, &model(names, 5.0)).expect("saved");
    let own: &[(&str, &[usize])] = &[
        ("a.weight", &[2]),
        ("head.weight", &[3]),
        ("head.bias", &[3]),
    ];
    let load = |renames: &[(&str, &str)]| {
        let own = model(own, 0.0);
        let renames = renames
            .iter()
            .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        let loaded = load_as(
            &path,
            &own,
            true,
            &renames.collect(),
            &FamilyNames::default(),
        );
        loaded.map(|comparison| (comparison, first(&own, "head.bias")))
    };
    let right: &[(&str, &str)] = &[
        ("module.", ""),
        ("module.body.", ""),
        ("module.fc.", "head."),
    ];
    let (comparison, value) = load(right).expect("they fit");
    assert!(comparison.is_complete());
    assert_eq!(value.to_bits(), 5.0_f32.to_bits());
    for (renames, words) in [
        (
            &[("modul.", "")][..],
            "no name of a weight begins with `modul.`; did you mean `module.`?",
        ),
        (&[("zzz.", "")], "they begin with `module.`"),
        (
            &[("module.fc.weight", "x"), ("module.fc.bias", "x")],
            "`module.fc.bias` and `module.fc.weight` would both be called `x`",
        ),
    ] {
        let error = load(renames).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    // The message says what would have helped.
    let body = model(
        &[("a.weight", &[2]), ("fc.weight", &[3]), ("fc.bias", &[3])],
        0.0,
    );
    let Err(WeightsError::NothingFits { comparison, .. }) = super::load(&path, &body, false) else {
        panic!("nothing fits")
    };
    let suggestion = comparison.suggestion().expect("a prefix");
    assert_eq!(
        suggestion,
        "`\"rename\": {\"module.\":\"\"}` would make 2 more fit"
    );
}

#[test]
fn files_of_other_programs_are_reported_with_what_converts_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let parameters = model(&[("a.weight", &[1])], 0.0);
    for (name, bytes, words) in [
        (
            "w.pt",
            &b"PK\x03\x04 archive/data.pkl and so on"[..],
            ["a file of PyTorch's, can't be read", "torch.load("],
        ),
        (
            "w.bin",
            b"\x80\x02\x8a\x0al\xfc",
            ["a file of PyTorch's", "weights_only=True"],
        ),
        (
            "w.ckpt",
            b"PK\x03\x04 archive/data.pkl",
            ["a file of PyTorch's", "w.safetensors')"],
        ),
        (
            "w.npz",
            b"PK\x03\x04 a.npy",
            ["an archive of NumPy's", "numpy.load("],
        ),
        ("w.h5", b"\x89HDF\r\n\x1a\n", ["HDF5", "h5py.File("]),
        ("w.onnx", b"\x08\x07", ["an ONNX model", "onnx.load("]),
        ("w.msgpack", b"\x81", ["Flax", "msgpack_restore("]),
        ("w.index", b"\0", ["TensorFlow", "load_checkpoint("]),
        (
            "w.safetensors",
            b"\xfd7zXZ\0",
            ["compressed by xz", "xz -dk"],
        ),
        (
            "w.safetensors",
            b"nothing",
            ["not a safetensors file", "damaged"],
        ),
    ] {
        let path = directory.path().join(name);
        fs_err::write(&path, bytes).expect("written");
        let error = load(&path, &parameters, true).expect_err(name).to_string();
        for words in words {
            assert!(error.contains(words), "{name}: {words}: {error}");
        }
    }
}

//! From arrays to splits.

use candle_core::{Device, Tensor};

use super::*;
use crate::Targets;

/// Six samples of two columns with the classes 0, 0, 0, 0, 1, 1.
fn place() -> ArrayDirectory {
    let place = ArrayDirectory::new();
    let inputs: Vec<f32> = (0..12_u8).map(f32::from).collect();
    place.write("x.npy", &npy("<f4", "(6, 2)", &f32s(&inputs)));
    place.write("y.npy", &npy("<i8", "(6,)", &i64s(&[0, 0, 0, 0, 1, 1])));
    place
}

fn arrays() -> Value {
    json!({"kind": "npy", "inputs": "x.npy", "targets": "y.npy"})
}

#[test]
fn whole_numbers_are_classes_and_others_numbers() {
    let place = place();
    let train = |keys: Value| place.load(arrays(), &keys).expect("it is right").train;
    let data = train(json!({}));
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(data.targets(), &Targets::Class(names(&["0", "1"])));
    assert_eq!(data.sample_shape(), [2]);
    let (inputs, targets) = all(&data);
    assert_eq!(inputs, (0..12_u8).map(f32::from).collect::<Vec<_>>());
    assert_eq!(targets, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    let three = train(json!({"classes": ["no", "yes", "maybe"]}));
    assert_eq!(three.class_names(), ["no", "yes", "maybe"]);
    let numbers: Vec<f32> = (0..12_u8).map(f32::from).collect();
    for (shape, file, expected) in [
        ("(12,)", "<i8", None),
        (
            "(6, 2)",
            "<f4",
            Some(Targets::Numbers(names(&["target1", "target2"]))),
        ),
        (
            "(6, 2)",
            "<i8",
            Some(Targets::ClassPerPosition(
                (0..12).map(|i| i.to_string()).collect(),
            )),
        ),
    ] {
        let bytes = match file {
            "<f4" => f32s(&numbers),
            _ => i64s(&(0..12).collect::<Vec<_>>()),
        };
        place.write("z.npy", &npy(file, shape, &bytes));
        let loaded = place.load(arrays(), &json!({"targets": "z.npy"}));
        match expected {
            Some(targets) => {
                let data = loaded.expect("it is right").train;
                assert_eq!(data.targets(), &targets);
                let batch = data.gather(&[5, 0], 0).expect("a batch");
                assert_eq!(batch.targets.dims(), [2, 2]);
                assert_eq!(all(&data).1, numbers);
            }
            None => assert!(loaded.is_err()),
        }
    }
    place.write("z.npy", &npy("<f4", "(6,)", &f32s(&numbers[..6])));
    let data = train(json!({"targets": "z.npy"}));
    assert_eq!(data.targets(), &Targets::Numbers(names(&["target"])));
    assert_eq!(
        data.gather(&[1], 0).expect("a batch").targets.dims(),
        [1, 1]
    );
}

#[test]
fn parts_keep_the_classes_shares_and_the_trainings_scale() {
    let place = place();
    let keys = json!({"val": {"count": 3}, "stratified": true, "standardise": true});
    let splits = place.load(arrays(), &keys).expect("it is right");
    let val = splits.val.expect("val");
    let ones = |data| all(data).1.iter().filter(|&&class| class > 0.5).count();
    assert_eq!((ones(&splits.train), ones(&val)), (1, 1));
    let (inputs, _) = all(&splits.train);
    for column in 0..2 {
        let of_column: Vec<f32> = inputs.iter().skip(column).step_by(2).copied().collect();
        let mean = of_column.iter().sum::<f32>() / 3.0;
        let variance = of_column.iter().map(|x| x * x).sum::<f32>() / 3.0;
        assert!(
            mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5,
            "{inputs:?}"
        );
    }
    let again = place.load(arrays(), &keys).expect("it is right");
    assert_eq!(all(&again.val.expect("val")), all(&val));
    // Separate files: two samples, scaled by the training means of 5 and 6.
    place.write(
        "own.npy",
        &npy("<f4", "(2, 2)", &f32s(&[5.0, 6.0, 5.0, 6.0])),
    );
    place.write("mine.npy", &npy("|u1", "(2,)", &[1, 0]));
    let own = json!({
        "test": {"inputs": "own.npy", "targets": "mine.npy"}, "standardise": true,
    });
    let splits = place.load(arrays(), &own).expect("it is right");
    let expected = (vec![0.0; 4], vec![1.0, 0.0]);
    assert_eq!(all(&splits.test.expect("test")), expected);
    let learnt = splits.preprocessing;
    let opened = learnt.open(&place.path("own.npy")).expect("right");
    assert_eq!(all(&opened.samples).0, expected.0);
    let error = learnt
        .open(&place.path("mine.npy"))
        .err()
        .expect("another shape");
    assert!(error.to_string().contains("have the shape []"), "{error}");
}

#[test]
fn arrays_that_do_not_fit_are_reported() {
    let place = place();
    let numbers = f32s(&[0.0, 1.0, f32::NAN, 3.0, 4.0, 5.0]);
    place.write("nan.npy", &npy("<f4", "(6,)", &numbers));
    place.write("five.npy", &npy("<i8", "(5,)", &i64s(&[0, 1, 0, 1, 0])));
    place.write("deep.npy", &npy("|u1", "(6, 1, 1)", &[0; 6]));
    place.write(
        "minus.npy",
        &npy("<i8", "(6,)", &i64s(&[0, 1, -1, 0, 1, 0])),
    );
    place.write(
        "huge.npy",
        &npy("<i8", "(6,)", &i64s(&[0, 1, i64::MAX, 0, 1, 0])),
    );
    place.write("turned.npy", &npy("<f4", "(2, 3)", &f32s(&[0.0; 6])));
    place.write("two.npy", &npy("|u1", "(2,)", &[1, 0]));
    place.write("twof.npy", &npy("<f4", "(2,)", &f32s(&[1.0, 0.0])));
    place.write("right.npy", &npy("<f4", "(2, 2)", &f32s(&[0.0; 4])));
    for (keys, words) in [
        (json!({"inputs": "nowhere.npy"}), "nowhere.npy"),
        (json!({"targets": "five.npy"}), "has 6 samples, but"),
        (
            json!({"targets": "deep.npy"}),
            "targets have (samples) or (samples, …)",
        ),
        (
            json!({"targets": "minus.npy"}),
            "has the class -1, but there are 2 classes",
        ),
        (
            json!({"targets": "huge.npy"}),
            "has the class 9223372036854775807",
        ),
        (json!({"classes": ["one"]}), "sample 4 in"),
        (
            json!({"classes": ["one"]}),
            "name all of them in `data.classes`",
        ),
        (json!({"inputs": "nan.npy"}), "sample 2 in"),
        (json!({"targets": "nan.npy"}), "has the number NaN"),
        (
            json!({"targets": "nan.npy", "classes": ["a"]}),
            "leave it out",
        ),
        (
            json!({"val": {"inputs": "x.npy"}}),
            "`fraction`, `fold` with `folds`, or `inputs` with `targets`",
        ),
        (json!({"val": {"count": 6}}), "nothing is left to train on"),
        (
            json!({"val": {"inputs": "turned.npy", "targets": "two.npy"}}),
            "of the shape [3]",
        ),
        (
            json!({"val": {"inputs": "right.npy", "targets": "twof.npy"}}),
            "has a number per sample as targets, the training a class per sample",
        ),
    ] {
        let error = place.load(arrays(), &keys).err().expect("it is wrong");
        assert!(error.to_string().contains(words), "{keys}: {error}");
    }
    place.write("f.npy", &npy("<f4", "(6,)", &f32s(&[0.0; 6])));
    let keys = json!({"targets": "f.npy", "stratified": true});
    let error = place.load(arrays(), &keys).err().expect("no classes");
    assert!(
        error.to_string().contains("the targets are numbers"),
        "{error}"
    );
}

#[test]
fn safetensors_are_arrays_too() {
    let place = ArrayDirectory::new();
    let tensor = |numbers: &[f32], shape: &[usize]| {
        Tensor::from_slice(numbers, shape, &Device::Cpu).expect("a tensor")
    };
    let classes = Tensor::from_slice(&[1_u32, 0, 1, 1], 4, &Device::Cpu).expect("a tensor");
    let tensors = [
        ("inputs", tensor(&[1.0, 2.0, 3.0, 4.0], &[4, 1])),
        (
            "images",
            tensor(&[0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0], &[4, 1, 1, 2]),
        ),
        ("targets", classes),
        ("measured", tensor(&[0.5, 0.25, 0.75, 1.5], &[4])),
    ];
    let tensors: std::collections::HashMap<_, _> = tensors.into_iter().collect();
    candle_core::safetensors::save(&tensors, place.path("file")).expect("saved");
    let config = || json!({"kind": "safetensors", "file": "file"});
    let load = |keys: &Value| place.load(config(), keys);
    let splits = load(&json!({"val": {"count": 1}, "test": {"file": "file"}})).expect("right");
    assert_eq!(splits.train.len(), 3);
    let test = splits.test.expect("test");
    assert_eq!(
        all(&test),
        (vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 0.0, 1.0, 1.0])
    );
    let keys = json!({"inputs": "images", "targets": "measured", "standardise": true});
    let Splits {
        train,
        preprocessing,
        ..
    } = load(&keys).expect("right");
    assert_eq!(train.sample_shape(), [1, 1, 2]);
    let expected = [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0];
    assert_eq!(all(&train), (expected.to_vec(), vec![0.5, 0.25, 0.75, 1.5]));
    let opened = preprocessing.open(&place.path("file")).expect("right");
    assert_eq!(all(&opened.samples).0, expected);
    place.write("text", b"hello there");
    for (keys, words) in [
        (
            json!({"inputs": "input"}),
            "no tensor `input`; did you mean `inputs`?",
        ),
        (
            json!({"targets": "zzz"}),
            "it has `images`, `inputs`, `measured`, `targets`",
        ),
        (json!({"file": "text"}), "is not a safetensors file"),
        (json!({"file": "nowhere"}), "no such file"),
        (
            json!({"val": {}}),
            "`fraction`, `fold` with `folds`, or `file`",
        ),
    ] {
        let error = load(&keys).err().expect("it is wrong");
        assert!(error.to_string().contains(words), "{keys}: {error}");
    }
}

#[test]
fn without_targets_the_inputs_are_their_own() {
    let place = ArrayDirectory::new();
    let inputs = f32s(&[0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0]);
    place.write("x.npy", &npy("<f4", "(2, 2, 2)", &inputs));
    place.write(
        "z.npy",
        &npy("<f4", "(1, 2, 2)", &f32s(&[1.0, 1.0, 3.0, -1.0])),
    );
    place.write("y.npy", &npy("<i8", "(1,)", &i64s(&[0])));
    let tensor = Tensor::from_slice(&[0.0_f32, 2.0, 0.0, 2.0], (1, 2, 2), &Device::Cpu);
    let tensors = [("inputs", tensor.expect("a tensor"))];
    let tensors: std::collections::HashMap<_, _> = tensors.into_iter().collect();
    candle_core::safetensors::save(&tensors, place.path("x.safetensors")).expect("saved");

    let config = || json!({"kind": "npy", "inputs": "x.npy", "standardise": true});
    let splits = place.load(config(), &json!({"val": {"inputs": "z.npy"}}));
    let splits = splits.expect("right");
    let Targets::Numbers(names) = splits.train.targets() else {
        panic!("numbers are to be learned");
    };
    assert_eq!(names[..], ["input1", "input2", "input3", "input4"]);
    let batch = splits.train.gather(&[1, 0], 0).expect("a batch");
    assert_eq!(
        (batch.inputs.dims(), batch.targets.dims()),
        (&[2, 2, 2][..], &[2, 4][..])
    );
    // Inputs as the model gets them, by the training's statistics in validation and prediction too.
    let val = splits.val.expect("val");
    let opened = splits.preprocessing.open(&place.path("z.npy"));
    let opened = opened.expect("right").samples;
    assert!(opened.has_targets());
    for (data, expected) in [
        (
            &splits.train,
            [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0].to_vec(),
        ),
        (&val, vec![0.0, 0.0, 2.0, -2.0]),
        (&opened, vec![0.0, 0.0, 2.0, -2.0]),
    ] {
        assert_eq!(all(data), (expected.clone(), expected));
    }
    let safetensors = json!({"kind": "safetensors", "file": "x.safetensors", "targets": null});
    let train = place.load(safetensors, &json!({})).expect("right").train;
    assert_eq!(
        all(&train),
        (vec![0.0, 2.0, 0.0, 2.0], vec![0.0, 2.0, 0.0, 2.0])
    );

    for (keys, words) in [
        (json!({"classes": ["a"]}), "leave it out"),
        (
            json!({"stratified": true, "val": {"count": 1}}),
            "stratified",
        ),
        (
            json!({"val": {"inputs": "z.npy", "targets": "y.npy"}}),
            "without `targets`",
        ),
    ] {
        let error = place.load(config(), &keys).err().expect("it is wrong");
        assert!(error.to_string().contains(words), "{keys}: {error}");
    }
}

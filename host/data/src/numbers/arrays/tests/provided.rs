//! Arrays that the program has in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::numbers::arrays::array::ArrayElements;
use crate::numbers::arrays::element::ArrayElement;
use crate::{Provided, ProvidedArray, ProvidedFile};

/// Every element has the value that it has when it is read into memory of this program's own.
#[test]
fn elements_that_are_kept_have_the_values_of_those_that_are_read() {
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let all = [
        ArrayElement::F16,
        ArrayElement::Bf16,
        ArrayElement::F32,
        ArrayElement::F64,
        ArrayElement::I8,
        ArrayElement::I16,
        ArrayElement::I32,
        ArrayElement::I64,
        ArrayElement::U8,
        ArrayElement::U16,
        ArrayElement::U32,
        ArrayElement::U64,
        ArrayElement::Bool,
    ];
    for element in all {
        for big_endian in [false, true] {
            let read = match ArrayElements::read(element, &bytes, big_endian) {
                ArrayElements::Floats(numbers) => numbers,
                ArrayElements::Integers(numbers) => numbers.iter().map(|&x| x as f32).collect(),
                ArrayElements::Kept(_) => Vec::new(),
            };
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            let kept = element.values(&bytes, big_endian);
            assert_eq!(bits(kept), bits(read), "{element:?}, {big_endian}");
        }
    }
}

fn array(typestr: &str, shape: &[usize], content: Vec<u8>) -> ProvidedFile {
    ProvidedFile::Array(ProvidedArray {
        element: typestr.to_owned(),
        shape: shape.to_vec(),
        content: Arc::new(content),
    })
}

#[test]
fn provided_arrays_stand_for_files_and_are_gone_with_their_guard() {
    let inputs: Vec<u8> = (0..24_u8)
        .map(f32::from)
        .flat_map(f32::to_le_bytes)
        .collect();
    let classes: Vec<u8> = (0..6_i64)
        .map(|i| i % 2)
        .flat_map(i64::to_le_bytes)
        .collect();
    let place = |name: &str| PathBuf::from("/provided-in-a-test").join(name);
    let given = [
        Provided::new(&place("x"), array("<f4", &[6, 4], inputs)).expect("free"),
        Provided::new(&place("y"), array("<i8", &[6], classes)).expect("free"),
    ];
    let config = NpyConfig {
        inputs: place("x"),
        targets: Some(place("y")),
        standardise: true,
        ..serde_json::from_str(r#"{"inputs": "", "targets": ""}"#).expect("a section")
    };
    let read = || load_npy(&config, Path::new(""), 1);
    let fitted = read().expect("provided");
    let batch = fitted.train.gather(&[0, 5], 0).expect("a batch");
    let own = batch.inputs.to_vec2::<f32>().expect("rows");
    // Columns are 0, 4, …, 20: their mean is 10 for the first.
    let deviation = (4..=20)
        .step_by(4)
        .chain([0])
        .map(|x| f64::from(x - 10).powi(2))
        .sum::<f64>()
        / 6.0;
    let expected = (-10.0 / deviation.sqrt()) as f32;
    assert_eq!(own[0][0].to_bits(), expected.to_bits());
    assert_eq!(batch.targets.to_vec1::<u32>().expect("classes"), [0, 1]);
    assert!(Provided::new(&place("x"), array("<f4", &[0], Vec::new())).is_err());
    drop(given);
    assert!(read().is_err(), "nothing is there any more");

    let wrong = Provided::new(&place("x"), array("<f4", &[6, 5], vec![0; 96])).expect("free");
    let error = read().err().expect("of another size").to_string();
    assert!(error.contains("[6, 5]"), "{error}");
    drop(wrong);
}

//! NumPy files, byte by byte.

use half::f16;

use super::super::array::{Array, ArrayElements};
use super::*;

fn read(bytes: &[u8]) -> Result<Array, crate::DataError> {
    let place = ArrayDirectory::new();
    place.write("array.npy", bytes);
    super::super::npy::read(&place.path("array.npy"))
}

fn error(bytes: &[u8]) -> String {
    read(bytes).expect_err("it is wrong").to_string()
}

#[test]
fn every_type_is_read_in_both_orders_of_bytes() {
    let floats = |numbers: &[f32]| ArrayElements::Floats(numbers.to_vec());
    let whole = |numbers: &[i64]| ArrayElements::Integers(numbers.to_vec());
    let halves: Vec<u8> = [1.5, -2.0]
        .iter()
        .flat_map(|&x| f16::from_f32(x).to_le_bytes())
        .collect();
    let doubles: Vec<u8> = [1.5_f64, -2.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let i16s: Vec<u8> = [3_i16, -4].iter().flat_map(|x| x.to_le_bytes()).collect();
    let i32s: Vec<u8> = [3_i32, -4].iter().flat_map(|x| x.to_le_bytes()).collect();
    for (descr, size, bytes, expected) in [
        ("f2", 2, halves, floats(&[1.5, -2.0])),
        ("f4", 4, f32s(&[1.5, -2.0]), floats(&[1.5, -2.0])),
        ("f8", 8, doubles, floats(&[1.5, -2.0])),
        ("i1", 1, vec![3, 0xfc], whole(&[3, -4])),
        ("i2", 2, i16s.clone(), whole(&[3, -4])),
        ("i4", 4, i32s, whole(&[3, -4])),
        ("i8", 8, i64s(&[3, -4]), whole(&[3, -4])),
        ("u1", 1, vec![3, 0xfc], whole(&[3, 252])),
        ("u2", 2, i16s, whole(&[3, 65_532])),
        (
            "u4",
            4,
            vec![3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            whole(&[3, 4_294_967_295]),
        ),
        ("u8", 8, i64s(&[3, -1]), whole(&[3, i64::MAX])),
        ("b1", 1, vec![1, 0], whole(&[1, 0])),
    ] {
        let swapped: Vec<u8> = bytes
            .chunks(size)
            .flat_map(|chunk| chunk.iter().rev().copied())
            .collect();
        for (order, bytes) in [("<", &bytes), (">", &swapped)] {
            let array = read(&npy(&format!("{order}{descr}"), "(2,)", bytes)).expect("right");
            assert_eq!(
                (&array.shape[..], &array.elements),
                (&[2][..], &expected),
                "{descr}"
            );
        }
    }
}

#[test]
fn every_version_and_order_is_read() {
    let numbers: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let dictionary = |order: &str| {
        format!("{{\"shape\": (2, 3, 4), 'fortran_order': {order}, 'descr': '<f4'}}\n")
    };
    // The element at (i, j, k) is i + 2 j + 6 k in Fortran order.
    let mut columns_first = Vec::new();
    for i in 0..2_u8 {
        for j in 0..3_u8 {
            for k in 0..4_u8 {
                columns_first.push(f32::from(i + 2 * j + 6 * k));
            }
        }
    }
    for version in 1..=3 {
        for (order, expected) in [("False", &numbers), ("True", &columns_first)] {
            let array = read(&npy_of(version, &dictionary(order), &f32s(&numbers)));
            let array = array.expect("it is right");
            assert_eq!(array.shape, [2, 3, 4]);
            assert_eq!(
                array.elements,
                ArrayElements::Floats(expected.clone()),
                "{order}"
            );
        }
    }
}

#[test]
fn every_truncation_is_reported() {
    let whole = npy("<f4", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0]));
    for length in 0..whole.len() {
        let text = error(&whole[..length]);
        let told = text.contains("truncated") || text.contains("the file is empty");
        assert!(told, "{length}: {text}");
    }
    let text = error(&[&whole[..], &[0]].concat());
    assert!(text.contains("continues after"), "{text}");
}

#[test]
fn wrong_files_are_reported() {
    let dictionary = |text: &str| npy_of(1, text, &[0; 8]);
    for (bytes, words) in [
        (b"PK\x03\x04aaaa".to_vec(), "a zip archive; of a .npz file"),
        (b"\x80\x04\x95aaaa".to_vec(), "a Python pickle"),
        (
            b"hello".to_vec(),
            "is not a .npy file: it begins with the bytes",
        ),
        (npy_of(9, "", &[]), "version 9"),
        (npy("<c8", "(1,)", &[0; 8]), "'<c8' (complex numbers)"),
        (npy("|O", "(1,)", &[0; 8]), "'|O' (Python objects)"),
        (npy("<U2", "(1,)", &[0; 8]), "'<U2' (texts)"),
        (
            dictionary("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
            "(records of several fields)",
        ),
        (dictionary("no"), "no dictionary in `no`"),
        (dictionary("{'descr'}"), "no value"),
        (
            dictionary("{'fortran_order': False, 'shape': (2,)}"),
            "no `descr`",
        ),
        (
            dictionary("{'descr': '<f4', 'shape': (2,)}"),
            "no `fortran_order`",
        ),
        (
            dictionary("{'descr': '<f4', 'fortran_order': False}"),
            "no `shape`",
        ),
        (
            dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"),
            "no `shape`, or no tuple",
        ),
        (dictionary("{'descr': '<f4', 'more': 1}"), "an unknown key"),
        (
            npy("<f4", "(0, 3)", &[]),
            "the shape [0, 3]: there is nothing in it",
        ),
        (npy("<f4", "()", &[0; 4]), "arrays have (samples, …)"),
        (npy("<f8", "(4294967296, 4294967296)", &[0; 8]), "truncated"),
    ] {
        let text = error(&bytes);
        assert!(text.contains(words) && text.contains("array.npy"), "{text}");
    }
    let missing = super::super::npy::read(Path::new("/no/such/file"));
    assert!(
        missing
            .expect_err("missing")
            .to_string()
            .contains("no such file")
    );
}

#[test]
fn of_a_file_that_is_not_as_long_as_its_header_says_no_more_than_the_header_is_read() {
    const SIZE: u64 = 200 << 30;
    let of_version_2 = |length: u32| [b"\x93NUMPY\x02\0", length.to_le_bytes().as_slice()].concat();
    for (start, words) in [
        (npy("<f4", "(2, 3)", &[0; 24]), "continues after the"),
        (npy("<f4", "(2, 9223372036854775807)", &[]), "truncated"),
        (b"PK\x03\x04".to_vec(), "a zip archive"),
        (of_version_2(1 << 30), "more than 1 MiB"),
        (of_version_2(8), "no dictionary"),
    ] {
        let place = ArrayDirectory::new();
        place.write("array.npy", &start);
        let file = std::fs::File::options()
            .write(true)
            .open(place.path("array.npy"))
            .expect("opened");
        file.set_len(SIZE).expect("a sparse file");
        let error = super::super::npy::read(&place.path("array.npy"));
        let error = error.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

//! Tensor views of valid and inconsistent tensors.

use std::ffi::c_void;

use super::{BrainHalf, DType, Half, Tensor, TensorMut};
use crate::abi::TextAbi;
use crate::ext::TensorAbi;

fn abi<T>(data: &[T], dtype: DType, shape: &[i64], strides: &[i64]) -> TensorAbi {
    let (type_code, type_bits) = dtype.codes();
    TensorAbi {
        data: data.as_ptr().cast_mut().cast::<c_void>(),
        byte_length: size_of_val(data) as u64,
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        name: TextAbi::new("w"),
        dimensions: shape.len() as u32,
        type_code,
        type_bits,
        ..TensorAbi::EMPTY
    }
}

#[test]
fn contiguous_and_strided_tensors_give_their_elements() {
    let data: Vec<f32> = (0..6_u8).map(f32::from).collect();
    let whole = abi(&data, DType::F32, &[2, 3], &[3, 1]);
    let turned = abi(&data, DType::F32, &[3, 2], &[1, 3]);
    // SAFETY: the data outlive the views, and nothing writes to them.
    let (whole, turned) = unsafe {
        (
            Tensor::new(whole).expect("right"),
            Tensor::new(turned).expect("right"),
        )
    };
    assert_eq!(whole.as_slice::<f32>().expect("contiguous"), data);
    assert_eq!(whole.name(), "w");
    assert!(whole.is_contiguous() && !turned.is_contiguous());
    let lent = whole.to_contiguous::<f32>().expect("numbers");
    assert!(matches!(lent, std::borrow::Cow::Borrowed(_)));
    let copied = turned.to_contiguous::<f32>().expect("numbers");
    assert_eq!(*copied, *turned.to_vec::<f32>().expect("numbers"));
    assert!(matches!(copied, std::borrow::Cow::Owned(_)));
    assert!(turned.as_slice::<f32>().is_err());
    assert_eq!(
        turned.to_vec::<f32>().expect("elements"),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
    let error = whole.as_slice::<f64>().expect_err("another type");
    assert_eq!(error.message(), "the elements of `w` are f32, not f64");
}

#[test]
fn scalars_broadcast_and_empty_tensors_are_tensors() {
    let data = [7_i64];
    let scalar = abi(&data, DType::I64, &[], &[]);
    let repeated = abi(&data, DType::I64, &[3], &[0]);
    let nothing = abi::<i64>(&[], DType::I64, &[0, 4], &[4, 1]);
    // SAFETY: the data outlive the views, and nothing writes to them.
    unsafe {
        assert_eq!(
            Tensor::new(scalar)
                .expect("right")
                .to_vec::<i64>()
                .expect("it"),
            [7]
        );
        assert_eq!(
            Tensor::new(repeated)
                .expect("right")
                .to_vec::<i64>()
                .expect("it"),
            [7; 3]
        );
        let nothing = Tensor::new(nothing).expect("right");
        assert!(nothing.is_empty() && nothing.as_slice::<i64>().expect("it").is_empty());
        assert!(nothing.to_vec::<i64>().expect("it").is_empty());
        let (shape, strides) = ([0, 1 << 32, 1 << 32], [1, 1 << 32, 1]);
        let nothing = abi(&data, DType::I64, &shape, &strides);
        let nothing = Tensor::new(nothing).expect("right");
        assert_eq!(nothing.elements::<i64>().expect("it").next(), None);
    }
}

#[test]
fn elements_that_lie_adjacent_and_those_that_do_not_come_in_the_same_order() {
    let data = [0_i64, 1, 2, 3, 4, 5];
    // SAFETY: the data outlive the views, and nothing writes to them.
    unsafe {
        let rows = Tensor::new(abi(&data, DType::I64, &[2, 3], &[3, 1])).expect("right");
        let columns = Tensor::new(abi(&data, DType::I64, &[3, 2], &[1, 3])).expect("right");
        for (view, expected) in [(rows, [0, 1, 2, 3, 4, 5]), (columns, [0, 3, 1, 4, 2, 5])] {
            let mut elements = view.elements::<i64>().expect("it");
            for (place, number) in expected.into_iter().enumerate() {
                assert_eq!(elements.len(), 6 - place);
                assert_eq!(elements.next(), Some(number));
            }
            assert_eq!(elements.next(), None);
        }
    }
}

#[test]
fn every_type_is_read_as_itself() {
    // SAFETY: the data outlive the views, and nothing writes to them.
    unsafe {
        let bytes = [1_u8, 255];
        let view = Tensor::new(abi(&bytes, DType::U8, &[2], &[1])).expect("right");
        assert_eq!(view.as_slice::<u8>().expect("it"), bytes);
        let halves = [0x3c00_u16];
        let view = Tensor::new(abi(&halves, DType::F16, &[1], &[1])).expect("right");
        assert_eq!(view.as_slice::<Half>().expect("it"), [Half(0x3c00)]);
        let view = Tensor::new(abi(&[0x3f80_u16], DType::Bf16, &[1], &[1])).expect("right");
        let ones: Vec<f32> = view
            .elements::<BrainHalf>()
            .expect("it")
            .map(f32::from)
            .collect();
        assert_eq!(ones, [1.0]);
    }
}

#[test]
fn what_contradicts_itself_is_never_touched() {
    let data = [0.0_f32; 6];
    let right = || abi(&data, DType::F32, &[2, 3], &[3, 1]);
    let huge = [i64::MAX, i64::MAX];
    let ones = [1, 1];
    let wrong = [
        TensorAbi {
            byte_length: 20,
            ..right()
        },
        TensorAbi {
            device_type: 2,
            ..right()
        },
        TensorAbi {
            data: std::ptr::null_mut(),
            ..right()
        },
        TensorAbi {
            data: data.as_ptr().cast_mut().cast::<u8>().wrapping_add(1).cast(),
            ..right()
        },
        TensorAbi {
            shape: std::ptr::null(),
            ..right()
        },
        TensorAbi {
            dimensions: 13,
            ..right()
        },
        abi(&data, DType::F32, &[2, -3], &[3, 1]),
        abi(&data, DType::F32, &[2, 3], &[-3, 1]),
        abi(&data, DType::F32, &[2, 3], &[4, 1]),
        abi(&data, DType::F32, &huge, &ones),
    ];
    for (index, wrong) in wrong
        .into_iter()
        .enumerate()
        .filter(|(index, _)| *index != 5)
    {
        // SAFETY: the view must refuse it without reading, which is what this tests.
        let refused = unsafe { Tensor::new(wrong) };
        assert!(refused.is_err(), "case {index}");
    }
    let unknown = TensorAbi {
        type_code: 99,
        ..right()
    };
    // SAFETY: the data outlive the view, and nothing writes to them.
    let unknown = unsafe { Tensor::new(unknown) }.expect("only its elements can't be read");
    assert!(unknown.dtype().is_none() && unknown.as_slice::<f32>().is_err());
}

#[test]
fn writing_changes_the_hosts_numbers() {
    let mut data = [1.0_f64, 2.0, 3.0];
    let mut lent = abi(&data, DType::F64, &[3], &[1]);
    lent.data = data.as_mut_ptr().cast();
    // SAFETY: the data outlive the view, and nothing else accesses them meanwhile.
    let mut view = unsafe { TensorMut::borrowed(lent) }.expect("right");
    view.map::<f64>(|x| x * 2.0).expect("written");
    view.as_mut_slice::<f64>().expect("slice")[0] = 9.0;
    assert_eq!(
        view.view().as_slice::<f64>().expect("read"),
        [9.0, 4.0, 6.0]
    );
    assert!(view.map::<f32>(|x| x).is_err());
    assert_eq!(
        data.map(f64::to_bits),
        [9.0_f64, 4.0, 6.0].map(f64::to_bits)
    );
}

#[test]
fn values_that_are_not_finite_are_found_in_any_float_type() {
    let first = |abi: TensorAbi| {
        // SAFETY: the data outlive the view, and nothing writes to them.
        let tensor = unsafe { Tensor::new(abi) }.expect("right");
        tensor.first_non_finite().expect("a known type")
    };
    let row = |dtype, bits: [u16; 3]| first(abi(&bits, dtype, &[3], &[1]));
    assert_eq!(row(DType::F16, [0x3c00, 0x7bff, 0x0001]), None);
    assert_eq!(row(DType::F16, [0x3c00, 0x7c00, 0x7e00]), Some(1));
    assert_eq!(row(DType::Bf16, [0x3f80, 0x7f80, 0x3f80]), Some(1));
    let singles = [1.0, f32::MAX, f32::NAN, 2.0_f32];
    assert_eq!(first(abi(&singles, DType::F32, &[4], &[1])), Some(2));
    // Transposed: the elements 1, NaN, MAX, 2.
    assert_eq!(first(abi(&singles, DType::F32, &[2, 2], &[1, 2])), Some(1));
    assert_eq!(first(abi(&[1_i64, i64::MAX], DType::I64, &[2], &[1])), None);
}

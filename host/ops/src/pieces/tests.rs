//! The passes on the tests' device, against loops on the CPU; nothing is done where that device is the CPU.

use candle_core::{DType, Device, Result, Tensor};

use super::{AddedRange, Addition, Part, add, copy, undefined};
use crate::device;

fn device() -> Option<Device> {
    Some(device::for_tests()).filter(Device::is_cuda)
}

/// Numbers of very different sizes, so that the order of additions shows in the bits of their sums.
fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut stream = crate::random::stream(seed, "tests of pieces", 0, 0);
    let number = |_| stream.normal() * 10.0_f64.powf(stream.uniform(-4.0, 4.0));
    (0..count).map(number).collect()
}

fn on(device: &Device, numbers: &[f64], dtype: DType) -> Result<Tensor> {
    Tensor::new(numbers, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

fn bits(tensor: &Tensor) -> Result<Vec<u64>> {
    let wide = device::copy_to_host(tensor)?.to_dtype(DType::F64)?;
    let numbers = wide.flatten_all()?.to_vec1::<f64>()?;
    Ok(numbers.into_iter().map(f64::to_bits).collect())
}

#[test]
fn nodes_are_added_with_the_bits_of_the_cpu() {
    let Some(device) = device() else { return };
    // Longer than a chunk, and the second range does without the first two nodes.
    let (length, nodes) = (9000, 4);
    let of = |sum, added, is_first| Addition {
        sum,
        added,
        is_first,
    };
    let ranges = [
        AddedRange {
            range: 0..8500,
            additions: vec![of(0, 1, false), of(2, 3, false), of(0, 2, false)],
        },
        AddedRange {
            range: 8500..8999,
            additions: vec![of(2, 3, false), of(0, 2, true)],
        },
    ];
    for dtype in [DType::F32, DType::F64] {
        let numbers = numbers(1, length * nodes);
        let data = on(&device, &numbers, dtype).unwrap();
        add(&data, length, &ranges).unwrap();
        let mut expected = numbers;
        let rounded = |x: f64| match dtype {
            DType::F32 => f64::from(x as f32),
            _ => x,
        };
        for x in &mut expected {
            *x = rounded(*x);
        }
        for AddedRange { range, additions } in &ranges {
            for addition in additions {
                for index in range.clone() {
                    let added = expected[addition.added * length + index];
                    let sum = &mut expected[addition.sum * length + index];
                    // A sum of two `f32` in `f64`, rounded to `f32`, is their sum in `f32`.
                    *sum = if addition.is_first {
                        added
                    } else {
                        rounded(*sum + added)
                    };
                }
            }
        }
        let expected: Vec<u64> = expected.into_iter().map(f64::to_bits).collect();
        assert!(bits(&data).unwrap() == expected, "{dtype:?}");
    }
}

#[test]
fn parts_are_copied_and_rounded_as_on_the_cpu() {
    let Some(device) = device() else { return };
    let numbers = numbers(2, 20_000);
    for (from, to) in [
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
        (DType::F32, DType::BF16),
        (DType::BF16, DType::F32),
    ] {
        let source = on(&device, &numbers, from).unwrap();
        let target = undefined(20_000, to, &device).unwrap();
        let part = |from_at, to_at, length| Part {
            from: &source,
            from_at,
            to: &target,
            to_at,
            length,
        };
        copy(&[part(0, 10_000, 10_000), part(10_000, 0, 9_999)]).unwrap();
        copy(&[part(19_999, 9_999, 1), part(3, 3, 0)]).unwrap();
        let halves = [&numbers[10_000..], &numbers[..10_000]].concat();
        let expected = on(&Device::Cpu, &halves, from).and_then(|it| it.to_dtype(to));
        assert!(
            bits(&target).unwrap() == bits(&expected.unwrap()).unwrap(),
            "{from:?} to {to:?}"
        );
    }
}

#[test]
fn parts_beyond_their_tensors_are_refused() {
    let Some(device) = device() else { return };
    let data = Tensor::zeros(8, DType::F32, &device).unwrap();
    let other = Tensor::zeros(4, DType::F32, &device).unwrap();
    let part = Part {
        from: &data,
        from_at: 0,
        to: &other,
        to_at: 0,
        length: 5,
    };
    assert!(copy(&[part]).is_err());
    let range = |end, added| AddedRange {
        range: 0..end,
        additions: vec![Addition {
            sum: 0,
            added,
            is_first: false,
        }],
    };
    assert!(add(&data, 4, &[range(5, 1)]).is_err());
    assert!(add(&data, 4, &[range(4, 2)]).is_err());
    assert!(add(&data, 4, &[range(4, 0)]).is_err());
    assert!(add(&data, 4, &[range(4, 1)]).is_ok());
}

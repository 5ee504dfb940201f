//! Operations on the tests' device, by its kernels, compared with the same on the CPU: values and gradients.
//!
//! `SCONCE_TEST_DEVICE=cuda` names the device; on the CPU both sides are the same.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::compilation::compiler;
use super::compilation::sources::Family;
use crate::options::{Change, Combination, CrossEntropyTerms, Reduction, Slices};
use crate::{device, normal_numbers};

fn on(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    tensor.to_device(device)
}

/// The largest difference of two tensors, relative to the larger of 1 and their largest element.
fn difference(a: &Tensor, b: &Tensor) -> Result<f64> {
    let double = |x: &Tensor| on(x, &Device::Cpu)?.to_dtype(DType::F64)?.flatten_all();
    let (a, b) = (double(a)?, double(b)?);
    assert_eq!(a.dims(), b.dims());
    let size = b.abs()?.max(0)?.to_scalar::<f64>()?.max(1.0);
    Ok((a - b)?.abs()?.max(0)?.to_scalar::<f64>()? / size)
}

/// Outputs and gradients of an operation on a device, where the output is weighted by fixed factors.
fn computed(
    inputs: &[Tensor],
    device: &Device,
    operation: &impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let inputs: Vec<Var> = inputs
        .iter()
        .map(|input| Var::from_tensor(&on(input, device)?))
        .collect::<Result<_>>()?;
    let tensors: Vec<Tensor> = inputs.iter().map(|var| var.as_tensor().clone()).collect();
    let recording = crate::record();
    let y = operation(&tensors)?;
    let factors = on(&normal_numbers(99, y.shape())?, device)?;
    let loss = (y.to_dtype(DType::F32)? * factors)?.sum_all()?;
    let gradients = crate::backward(&loss, 1.0)?;
    drop(recording);
    let mut found = vec![y.detach()];
    for input in &inputs {
        found.push(gradients.get(input).expect("a gradient").clone());
    }
    Ok(found)
}

/// Checks that an operation of these inputs gives the CPU's values and gradients to within a tolerance, and the same bits twice.
fn agrees(
    name: &str,
    inputs: &[Tensor],
    tolerance: f64,
    operation: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let device = device::for_tests();
    let expected = computed(inputs, &Device::Cpu, &operation).expect(name);
    let found = computed(inputs, &device, &operation).expect(name);
    let again = computed(inputs, &device, &operation).expect(name);
    for (index, ((found, expected), again)) in found.iter().zip(&expected).zip(&again).enumerate() {
        let wrong = difference(found, expected).expect(name);
        assert!(wrong <= tolerance, "{name}, tensor {index}: {wrong:e}");
        assert!(difference(found, again).expect(name) <= 0.0, "{name}: bits");
    }
}

#[test]
fn every_family_is_compiled() {
    if let Device::Cuda(_) = device::for_tests() {
        for family in Family::ALL {
            assert!(compiler::image(family, (9, 0)).is_ok(), "{family:?}");
        }
    }
}

fn numbers(seed: u64, shape: &[usize]) -> Tensor {
    normal_numbers(seed, shape).expect("numbers")
}

/// Shapes of rows: of a warp, of a block, and neither's multiple; more rows than a segment.
const ROWS: [(usize, usize); 4] = [(3, 5), (70, 64), (5, 1027), (131, 100)];

#[test]
fn norms_agree_with_the_cpu() {
    for (rows, width) in ROWS {
        let inputs = [
            numbers(1, &[rows, width]),
            numbers(2, &[width]),
            numbers(3, &[width]),
        ];
        agrees("layer norm", &inputs, 2e-5, |of| {
            crate::layer_norm(&of[0], &of[1], &of[2], 1e-5)
        });
        agrees("RMS norm", &inputs[..2], 2e-5, |of| {
            crate::rms_norm(&of[0], &of[1], 1e-5)
        });
        agrees("layer norm of bf16", &inputs, 2e-2, |of| {
            crate::layer_norm(&of[0].to_dtype(DType::BF16)?, &of[1], &of[2], 1e-5)
        });
    }
}

#[test]
fn softmax_agrees_with_the_cpu() {
    for (rows, width) in ROWS {
        let inputs = [numbers(1, &[2, rows, width])];
        agrees("softmax", &inputs, 1e-5, |of| crate::softmax(&of[0], false));
        if rows <= width {
            agrees("causal softmax", &inputs, 1e-5, |of| {
                crate::softmax(&of[0], true)
            });
        }
    }
}

#[test]
fn cross_entropy_agrees_with_the_cpu() {
    for (rows, classes) in ROWS {
        let inputs = [numbers(1, &[rows, classes])];
        let target = |row: usize| (row % 4 != 1).then_some((row * 7 % classes) as u32);
        let targets: Vec<Option<u32>> = (0..rows).map(target).collect();
        let weights = (0..classes).map(|class| 0.5 + (class % 3) as f64).collect();
        for terms in [
            CrossEntropyTerms::default(),
            CrossEntropyTerms {
                smoothing: 0.1,
                weights: Some(weights),
                rows: None,
            },
        ] {
            agrees("cross entropy", &inputs, 1e-5, |of| {
                crate::cross_entropy(&of[0], &targets, terms.clone(), rows as f64)
            });
            agrees("cross entropy of bf16", &inputs, 1e-2, |of| {
                let x = of[0].to_dtype(DType::BF16)?;
                crate::cross_entropy(&x, &targets, terms.clone(), rows as f64)
            });
        }
    }
}

#[test]
fn batch_norm_agrees_with_the_cpu() {
    let shapes: [&[usize]; 4] = [&[5, 3], &[70, 6, 9], &[3, 2, 7, 8], &[300, 4, 6, 6]];
    for shape in shapes {
        let channels = shape[1];
        let inputs = [
            (numbers(1, shape) * 3.0)
                .and_then(|x| x + 5.0)
                .expect("numbers"),
            numbers(2, &[channels]),
            numbers(3, &[channels]),
        ];
        for relu in [false, true] {
            agrees("batch norm", &inputs, 2e-5, |of| {
                let inputs = [&of[0], &of[1], &of[2]];
                Ok(crate::batch_norm_of_batch(inputs, 1e-5, relu)?.0)
            });
            agrees("batch norm by constants", &inputs, 2e-5, |of| {
                let statistics = crate::ChannelStatistics::of(&(&of[0] * 0.5)?)?;
                let inputs = [&of[0], &of[1], &of[2]];
                let source = crate::StatisticsSource::Constant;
                crate::batch_norm_then(inputs, &statistics, source, 1e-5, relu)
            });
        }
        agrees("batch norm of bf16", &inputs, 3e-2, |of| {
            let x = of[0].to_dtype(DType::BF16)?;
            Ok(crate::batch_norm_of_batch([&x, &of[1], &of[2]], 1e-5, false)?.0)
        });
    }
}

#[test]
fn convolutions_agree_with_the_cpu() {
    // Sides of the image, kernel, stride, padding, dilation.
    for (side, kernel, stride, padding, dilation) in [
        (9, (3, 3), 1, 1, 1),
        (8, (5, 3), 1, 0, 1),
        (11, (3, 3), 2, 1, 1),
        (6, (1, 1), 1, 0, 1),
        (7, (1, 1), 2, 0, 1),
        (10, (3, 2), 1, 2, 2),
    ] {
        let window = crate::Window {
            kernel,
            stride: (stride, stride),
            padding: (padding, padding),
            dilation: (dilation, dilation),
        };
        let inputs = [
            numbers(1, &[5, 3, side, side + 1]),
            numbers(2, &[4, 3, kernel.0, kernel.1]),
            numbers(3, &[4]),
        ];
        for (relu, pool) in [(false, false), (true, true)] {
            let after = crate::After { relu, pool };
            agrees("convolution", &inputs, 2e-5, |of| {
                crate::conv2d_then(&of[0], &of[1], Some(&of[2]), window, 1, after)
            });
        }
        agrees("convolution without a bias", &inputs[..2], 2e-5, |of| {
            crate::conv2d(&of[0], &of[1], None, window, 1)
        });
    }
}

#[test]
fn pooling_agrees_with_the_cpu() {
    use crate::{PoolKind, Windows};
    let inputs = [numbers(1, &[3, 5, 9, 10])];
    let sliding = |size, stride, padding| {
        [9, 10].map(|length| Windows::sliding(length, size, stride, padding).expect("windows"))
    };
    for [down, across] in [
        sliding(2, 2, 0),
        sliding(3, 2, 1),
        sliding(2, 3, 0),
        [Windows::adaptive(9, 4), Windows::adaptive(10, 1)],
    ] {
        for kind in [PoolKind::Max, PoolKind::Mean] {
            let pool = |x: &Tensor| crate::pool2d(x, kind, down.clone(), across.clone());
            agrees("pooling", &inputs, 1e-6, |of| pool(&of[0]));
            agrees("pooling of bf16", &inputs, 2e-2, |of| {
                pool(&of[0].to_dtype(DType::BF16)?)
            });
        }
    }
}

/// Heads of widths with kernels of their own, and between; lengths around a tile's and a block's.
#[test]
fn attention_agrees_with_the_cpu() {
    for (length, heads, each) in [
        (70, 2, 16),
        (1, 2, 8),
        (64, 1, 64),
        (150, 1, 40),
        (97, 1, 128),
    ] {
        let inputs = [numbers(1, &[2, length, 3 * heads * each])];
        for causal in [false, true] {
            agrees("attention", &inputs, 1e-5, |of| {
                crate::attention(&of[0], heads, causal)
            });
            agrees("attention of bf16", &inputs, 2e-2, |of| {
                crate::attention(&of[0].to_dtype(DType::BF16)?, heads, causal)
            });
        }
    }
    // Without tensor cores: rows of bf16 that are no multiple of 16 bytes.
    let inputs = [numbers(1, &[1, 33, 3 * 2 * 5])];
    agrees("attention of odd heads in bf16", &inputs, 2e-2, |of| {
        crate::attention(&of[0].to_dtype(DType::BF16)?, 2, true)
    });
}

#[test]
fn activations_agree_with_the_cpu() {
    let inputs = [
        numbers(1, &[131, 40]),
        numbers(2, &[24, 40]),
        numbers(3, &[24]),
    ];
    for function in crate::Function::ALL {
        agrees("a linear layer and a function", &inputs, 2e-5, |of| {
            crate::linear_then(&of[0], &of[1], Some(&of[2]), function)
        });
        let apply = |x: &Tensor| crate::activated(x, function);
        // Of runs of 16 bytes, and of single elements.
        for shape in [[131, 40], [7, 3]] {
            let inputs = [numbers(4, &shape)];
            agrees("a function", &inputs, 1e-5, |of| apply(&of[0]));
            agrees("a function of bf16", &inputs, 2e-2, |of| {
                apply(&of[0].to_dtype(DType::BF16)?)
            });
        }
    }
    agrees("a linear layer", &inputs, 2e-5, |of| {
        crate::linear(&of[0], &of[1], Some(&of[2]))
    });
}

#[test]
fn an_embedding_agrees_with_the_cpu() {
    for (rows, width, positions) in [(5, 3, 7), (67, 130, 2100), (3000, 100, 300)] {
        let tokens: Vec<u32> = (0..positions).map(|i| (i * i * 31 % rows) as u32).collect();
        let tokens = Tensor::from_vec(tokens, positions, &Device::Cpu).expect("tokens");
        agrees("embedding", &[numbers(1, &[rows, width])], 1e-5, |of| {
            crate::embedding(&of[0], &on(&tokens, of[0].device())?)
        });
    }
}

#[test]
fn masks_are_the_cpus() {
    for count in [1, 8, 1001] {
        let x = numbers(1, &[count]);
        let factors = |device: &Device| {
            let stream = crate::random::stream(3, "dropout/a", 2, 5);
            let factors = crate::dropout_factors(&stream, &on(&x, device)?, 0.3)?;
            factors.to_vec1::<f32>()
        };
        let expected = factors(&Device::Cpu).expect("on the CPU");
        assert_eq!(
            factors(&device::for_tests()).expect("on the device"),
            expected
        );
    }
}

/// Tensors of sizes around a chunk's, with slices of each kind.
fn collection(seed: u64, device: &Device) -> Vec<(Tensor, Slices)> {
    let shapes: [&[usize]; 5] = [&[7], &[33, 50], &[8192], &[3, 2731], &[20_001]];
    let each = shapes.iter().zip([None, Some(0), None, Some(1), None]);
    each.map(|(shape, axis)| {
        let slices = axis.map_or(Slices::WHOLE, |axis| Slices::along(shape, axis));
        let tensor = numbers(seed, shape).to_device(device).expect("a tensor");
        // One of its own, as it is changed.
        (tensor.copy().expect("a copy"), slices)
    })
    .collect()
}

#[test]
fn collections_are_reduced_and_changed_as_on_the_cpu() {
    let device = device::for_tests();
    let tensors = collection(1, &device);
    let elements: Vec<Vec<f32>> = tensors
        .iter()
        .map(|(tensor, _)| {
            tensor
                .flatten_all()
                .and_then(|flat| flat.to_vec1())
                .expect("elements")
        })
        .collect();
    let slices: Vec<_> = elements
        .iter()
        .zip(&tensors)
        .map(|(elements, (_, slices))| (&elements[..], *slices))
        .collect();
    for reduction in [
        Reduction::Powers(2.0),
        Reduction::Powers(1.0),
        Reduction::Powers(3.0),
        Reduction::Largest,
        Reduction::NotFinite,
        Reduction::NotANumber,
    ] {
        let expected = crate::vectors::reduce(1, &slices, reduction);
        let found = crate::vectors::reduce_tensors(&tensors, reduction).expect("a reduction");
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let wrong = (found - expected).abs();
            assert!(
                wrong <= 1e-12 * expected.abs(),
                "{reduction:?}: {found} {expected}"
            );
        }
    }
    let count: usize = slices.iter().map(|(_, slices)| slices.count()).sum();
    let factors: Vec<f64> = (0..count)
        .map(|slice| 1.0 + (slice % 3) as f64 / 7.0)
        .collect();
    let others = collection(2, &device);
    let others: Vec<Tensor> = others.into_iter().map(|(tensor, _)| tensor).collect();
    let flat = |tensor: &Tensor| -> Vec<f32> {
        tensor
            .flatten_all()
            .and_then(|flat| flat.to_vec1())
            .expect("elements")
    };
    for change in [
        Change::Scale(0.3),
        Change::ScaleSlices(&factors),
        Change::Clamp(-0.5, 0.7),
        Change::Fill(2.5),
    ] {
        let changed = collection(1, &device);
        crate::vectors::change_tensors(&changed, change).expect("a change");
        let mut expected = elements.clone();
        let mut vectors: Vec<_> = expected
            .iter_mut()
            .zip(&tensors)
            .map(|(elements, (_, slices))| (&mut elements[..], *slices))
            .collect();
        crate::vectors::change(1, &mut vectors, change);
        for ((found, _), expected) in changed.iter().zip(&expected) {
            assert_eq!(flat(found), *expected, "{change:?}");
        }
    }
    for combination in [
        Combination::Add(0.3),
        Combination::Blend(0.3),
        Combination::Multiply,
        Combination::Copy,
    ] {
        let onto: Vec<Tensor> = collection(1, &device)
            .into_iter()
            .map(|(it, _)| it)
            .collect();
        crate::vectors::combine_tensors(&onto, &others, combination).expect("a combination");
        let mut expected = elements.clone();
        let mut slices: Vec<&mut [f32]> = expected.iter_mut().map(|it| &mut it[..]).collect();
        let from: Vec<Vec<f32>> = others.iter().map(&flat).collect();
        let from: Vec<&[f32]> = from.iter().map(|it| &it[..]).collect();
        crate::vectors::combine(1, &mut slices, &from, combination);
        for (found, expected) in onto.iter().zip(&expected) {
            assert_eq!(flat(found), *expected, "{combination:?}");
        }
    }
}

//! Each composed operation compared with its kernel, and its gradient with finite differences.
//!
//! Where all operations are composed (see [`VARIABLE`]), both sides are, and only the gradients are checked.

use candle_core::{DType, Result, Tensor, Var};

use super::*;
use crate::gradient_check::check_gradients;
use crate::options::{After, Function, PoolKind, WeightOrder, Window, Windows};
use crate::statistics::{ChannelStatistics, StatisticsSource};
use crate::{AttentionTerms, CrossEntropyTerms, normal_numbers};

/// Compares an operation with its kernel, in `f64`, and checks the gradients of what it composes.
fn check(
    name: &str,
    shapes: &[&[usize]],
    composed: impl Fn(&[Tensor]) -> Result<Tensor>,
    kernel: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    let inputs: Result<Vec<Var>> = (shapes.iter().enumerate())
        .map(|(index, shape)| {
            let numbers = normal_numbers(index as u64 + 1, shape.to_vec())?;
            Var::from_tensor(&numbers.to_dtype(DType::F64)?)
        })
        .collect();
    let inputs = inputs?;
    let tensors: Vec<Tensor> = inputs
        .iter()
        .map(|input| input.as_tensor().clone())
        .collect();
    let (found, expected) = (composed(&tensors)?, kernel(&tensors)?);
    assert_eq!(found.dims(), expected.dims(), "{name}");
    let furthest = (found - expected)?
        .abs()?
        .flatten_all()?
        .max(0)?
        .to_scalar::<f64>()?;
    assert!(furthest < 1e-6, "{name}: {furthest}");
    let report = check_gradients(&inputs, |inputs| composed(inputs));
    assert!(report.is_right(), "{name}: {report}");
    Ok(())
}

#[test]
fn layers_are_their_kernels() -> Result<()> {
    let function = Function::Gelu;
    check(
        "linear",
        &[&[2, 3, 5], &[4, 5], &[4]],
        |x| {
            linear(
                &x[0],
                (&x[1], WeightOrder::OutputsInputs),
                Some(&x[2]),
                Some(function),
            )
        },
        |x| crate::linear_then(&x[0], &x[1], Some(&x[2]), function),
    )?;
    check(
        "linear by a transposed weight",
        &[&[2, 3, 5], &[5, 4]],
        |x| linear(&x[0], (&x[1], WeightOrder::InputsOutputs), None, None),
        |x| crate::linear(&x[0], &x[1].t()?, None),
    )?;
    for function in Function::ALL {
        let kernel = |x: &[Tensor]| crate::activated(&x[0], function);
        check("function", &[&[7, 3]], |x| apply(&x[0], function), kernel)?;
    }
    check(
        "sum",
        &[&[4, 3], &[4, 3]],
        |x| add_relu(&x[0], &x[1]),
        |x| crate::add_relu(&x[0], &x[1]),
    )?;
    for causal in [false, true] {
        check(
            "attention",
            &[&[2, 5, 12]],
            |x| attention(&x[0], &AttentionTerms::new(2, causal)),
            |x| crate::attention(&x[0], 2, causal),
        )?;
        check(
            "softmax",
            &[&[2, 3, 5]],
            |x| softmax(&x[0], causal),
            |x| crate::softmax(&x[0], causal),
        )?;
    }
    check(
        "layer norm",
        &[&[3, 6], &[6], &[6]],
        |x| layer_norm(&x[0], &x[1], &x[2], 1e-5),
        |x| crate::layer_norm(&x[0], &x[1], &x[2], 1e-5),
    )?;
    check(
        "rms norm",
        &[&[3, 6], &[6]],
        |x| rms_norm(&x[0], &x[1], 1e-5),
        |x| crate::rms_norm(&x[0], &x[1], 1e-5),
    )?;
    check(
        "positions",
        &[&[2, 3, 4], &[5, 4]],
        |x| add_positions(&x[0], &x[1]),
        |x| crate::add_positions(&x[0], &x[1]),
    )?;
    check(
        "transposition",
        &[&[2, 3, 4]],
        |x| transpose(&x[0]),
        |x| crate::transpose(&x[0]),
    )?;
    check(
        "mean",
        &[&[2, 3, 4]],
        |x| mean_positions(&x[0]),
        |x| crate::mean_positions(&x[0]),
    )?;
    let tokens = Tensor::new(&[[3_u32, 0], [3, 1]], &crate::device::for_tests())?;
    check(
        "embedding",
        &[&[4, 3]],
        |x| embedding_with(&x[0], &tokens, None),
        |x| crate::embedding(&x[0], &tokens),
    )?;
    let factors = Tensor::new(&[[0.0, 2.0], [2.0, 0.0]], &crate::device::for_tests())?;
    check(
        "mask",
        &[&[2, 2]],
        |x| masked(&x[0], &factors),
        |x| crate::masked(&x[0], &factors),
    )
}

#[test]
fn batch_norms_are_their_kernels() -> Result<()> {
    let shapes: [&[usize]; 3] = [&[4, 3, 2, 5], &[3], &[3]];
    for (source, relu) in [
        (StatisticsSource::Batch, false),
        (StatisticsSource::Batch, true),
        (StatisticsSource::Constant, true),
    ] {
        let of = |x: &Tensor| match source {
            StatisticsSource::Batch => statistics(x),
            _ => Ok(ChannelStatistics {
                mean: Tensor::new(&[0.5, -0.25, 0.0], &crate::device::for_tests())?,
                variance: Tensor::new(&[2.0, 0.5, 1.0], &crate::device::for_tests())?,
                count: 7,
            }),
        };
        check(
            "batch norm",
            &shapes,
            |x| batch_norm([&x[0], &x[1], &x[2]], &of(&x[0])?, &source, 1e-5, relu),
            |x| {
                crate::batch_norm_then(
                    [&x[0], &x[1], &x[2]],
                    &of(&x[0])?,
                    source.clone(),
                    1e-5,
                    relu,
                )
            },
        )?;
    }
    Ok(())
}

#[test]
fn losses_are_their_kernels() -> Result<()> {
    let targets = [Some(2), None, Some(0), Some(2)];
    let weights = Some(vec![0.5, 1.0, 2.0]);
    let rows = Some(vec![0.5, 3.0, 0.25, 2.0]);
    for (smoothing, weights, rows) in [
        (0.0, None, None),
        (0.1, None, None),
        (0.2, weights.clone(), None),
        (0.0, None, rows.clone()),
        (0.2, weights, rows),
    ] {
        let terms = CrossEntropyTerms {
            smoothing,
            weights,
            rows,
        };
        check(
            "cross entropy",
            &[&[4, 3]],
            |x| cross_entropy(&x[0], &targets, &terms, 3.0),
            |x| crate::cross_entropy(&x[0], &targets, terms.clone(), 3.0),
        )?;
        let unread = Tensor::new(&[2_u32, 9, 0, 2], &crate::device::for_tests())?;
        let of_class = |class: usize| terms.weights.as_ref().map_or(1.0, |weights| weights[class]);
        let of_row = |row: usize| terms.rows.as_ref().map_or(1.0, |rows| rows[row]);
        let counted = [(0, 2), (2, 0), (3, 2)];
        let divisor = counted.map(|(row, class)| of_row(row) * of_class(class));
        let divisor = divisor.iter().sum();
        check(
            "cross entropy of targets that are not read",
            &[&[4, 3]],
            |x| crate::cross_entropy_on_device(&x[0], &unread, Some(9), &terms),
            |x| crate::cross_entropy(&x[0], &targets, terms.clone(), divisor),
        )?;
    }
    // Targets that don't count may be anything, and rows that don't count may hold anything; other targets may not.
    let logits = Tensor::new(
        &[[1.0_f32, 2.0], [f32::NAN, 0.0]],
        &crate::device::for_tests(),
    )?;
    let loss = |targets: [u32; 2]| {
        let (targets, terms) = (
            Tensor::new(&targets, &crate::device::for_tests())?,
            &CrossEntropyTerms::default(),
        );
        crate::cross_entropy_on_device(&logits, &targets, Some(7), terms)?.to_scalar::<f32>()
    };
    assert!((loss([1, 7])? - 0.313_261_7).abs() < 1e-6);
    assert!(loss([7, 7])?.abs() < f32::EPSILON);
    assert!(loss([2, 7])?.is_nan());
    check(
        "squared error",
        &[&[3, 4], &[3, 4]],
        |x| mean_squared_error(&x[0], &x[1]),
        |x| crate::mean_squared_error(&x[0], &x[1]),
    )?;
    for (number, expected) in [(1.0, true), (f32::NAN, false), (f32::NEG_INFINITY, false)] {
        assert_eq!(
            is_finite(&Tensor::new(&[0.0, number], &crate::device::for_tests())?)?,
            expected
        );
    }
    Ok(())
}

#[test]
fn convolutions_are_their_kernels() -> Result<()> {
    let window = |kernel, stride, padding, dilation| Window {
        kernel,
        stride,
        padding,
        dilation,
    };
    let after = After {
        relu: true,
        pool: true,
    };
    for (name, window, groups, weight, after) in [
        (
            "3 × 3",
            window((3, 3), (1, 1), (1, 1), (1, 1)),
            1,
            [4, 2, 3, 3],
            after,
        ),
        (
            "a rest on one side",
            window((3, 2), (2, 3), (1, 0), (1, 1)),
            1,
            [4, 2, 3, 2],
            After::default(),
        ),
        (
            "dilated, in groups",
            window((2, 2), (1, 1), (0, 1), (2, 1)),
            2,
            [4, 1, 2, 2],
            After::default(),
        ),
    ] {
        check(
            name,
            &[&[2, 2, 6, 7], &weight, &[4]],
            |x| conv2d(&x[0], &x[1], Some(&x[2]), window, groups, after),
            |x| crate::conv2d_then(&x[0], &x[1], Some(&x[2]), window, groups, after),
        )?;
        check(
            name,
            &[&[2, 2, 6, 7]],
            |x| unfold2d(&x[0], window),
            |x| crate::unfold2d(&x[0], window),
        )?;
    }
    Ok(())
}

#[test]
fn pooling_is_its_kernel_also_between_equal_elements() -> Result<()> {
    let sliding = |length, size, stride, padding| {
        Windows::sliding(length, size, stride, padding).expect("there is room")
    };
    for (down, across) in [
        (sliding(6, 2, 2, 0), sliding(7, 2, 2, 0)),
        (sliding(6, 3, 2, 1), sliding(7, 2, 1, 0)),
        (Windows::adaptive(6, 4), Windows::adaptive(7, 1)),
    ] {
        for kind in [PoolKind::Max, PoolKind::Mean] {
            check(
                "pooling",
                &[&[2, 3, 6, 7]],
                |x| pool2d(&x[0], kind, &down, &across),
                |x| crate::pool2d(&x[0], kind, down.clone(), across.clone()),
            )?;
        }
    }
    let (down, across) = (sliding(2, 2, 2, 0), sliding(4, 2, 2, 0));
    let x = Var::new(
        &[[[1.0_f32, 1.0, f32::NAN, 3.0], [0.0, 1.0, 2.0, 4.0]]],
        &crate::device::for_tests(),
    )?;
    let y = pool2d(&x, PoolKind::Max, &down, &across)?;
    let gradients = y.sum_all()?.backward()?;
    let gradient = gradients.get(&x).expect("a gradient").to_vec3::<f32>()?;
    assert_eq!(gradient, [[[1.0, 0.0, 1.0, 0.0], [0.0; 4]]]);
    assert!(y.flatten_all()?.to_vec1::<f32>()?[1].is_nan());
    Ok(())
}

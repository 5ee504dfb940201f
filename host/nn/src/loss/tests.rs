//! Losses compared with PyTorch's and with their formulas, and gradients with finite differences.

use candle_core::{DType, Tensor, Var};
use serde_json::Value;

use super::*;
use crate::Targets;

/// Written by tests/reference/losses.py.
const REFERENCE: &str = include_str!("../../../../tests/reference/losses.json");

fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn shape(value: &Value) -> Vec<usize> {
    let mut shape = Vec::new();
    let mut value = value;
    while let Value::Array(values) = value {
        shape.push(values.len());
        value = &values[0];
    }
    shape
}

/// In `f64`.
fn tensor(value: &Value) -> Tensor {
    Tensor::from_vec(flat(value), shape(value), &sconce_ops::device::for_tests()).expect("numbers")
}

/// Targets of the type that a data set gives, with its description of them.
fn targets_of(case: &Value) -> (Targets, Tensor) {
    let found = tensor(&case["targets"]);
    let outputs = shape(&case["outputs"]);
    let count = *outputs.last().expect("at least one");
    let names = (0..count).map(|index| index.to_string()).collect();
    let classes = || found.to_dtype(DType::U32).expect("classes");
    match (&case["config"]["kind"], outputs.len()) {
        (Value::String(kind), 2) if kind == "cross-entropy" => (Targets::Class(names), classes()),
        (_, 3) => (Targets::ClassPerPosition(names), classes()),
        _ => (
            Targets::Numbers(names),
            found.to_dtype(DType::F32).expect("numbers"),
        ),
    }
}

fn number(tensor: &Tensor) -> f64 {
    let tensor = tensor.to_dtype(DType::F64).expect("a number");
    tensor.to_scalar().expect("a scalar")
}

/// The gradient of the loss with respect to `outputs`.
fn gradient(loss: &Loss, outputs: &Tensor, targets: &Tensor) -> Vec<f64> {
    let outputs = Var::from_tensor(outputs).expect("a variable");
    let value = loss.forward(&outputs, targets).expect("a loss");
    let store = value.backward().expect("backward");
    let gradient = store.get(&outputs).expect("a gradient");
    let gradient = gradient.to_dtype(DType::F64).and_then(|g| g.flatten_all());
    gradient.and_then(|g| g.to_vec1()).expect("numbers")
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} {expected}");
    }
}

fn cases() -> Vec<(Loss, Tensor, Tensor, Value)> {
    let reference: Value = serde_json::from_str(REFERENCE).expect("JSON");
    let cases = reference["cases"].as_array().expect("a list").clone();
    assert!(!cases.is_empty());
    let built = cases.into_iter().map(|case| {
        let (targets, values) = targets_of(&case);
        let config: LossConfig = serde_json::from_value(case["config"].clone()).expect("a config");
        let loss = config.build(&targets, None).expect("a loss");
        (loss, tensor(&case["outputs"]), values, case)
    });
    built.collect()
}

#[test]
fn values_and_gradients_are_pytorchs() {
    for (loss, outputs, targets, case) in cases() {
        let tolerance = 1e-12;
        let value = number(&loss.forward(&outputs, &targets).expect("a loss"));
        close(&[value], &flat(&case["loss"]), tolerance);
        close(
            &gradient(&loss, &outputs, &targets),
            &flat(&case["gradient"]),
            tolerance,
        );
        let halved = outputs.to_dtype(DType::F32).expect("f32");
        let value = number(&loss.forward(&halved, &targets).expect("a loss"));
        close(&[value], &flat(&case["loss"]), 1e-5);
    }
}

#[test]
fn gradients_are_those_of_central_differences() {
    for (loss, outputs, targets, _) in cases() {
        let at: Vec<f64> = outputs
            .flatten_all()
            .and_then(|o| o.to_vec1())
            .expect("f64");
        let difference = |index: usize, step: f64| {
            let mut moved = at.clone();
            moved[index] += step;
            let moved = Tensor::from_vec(moved, outputs.dims(), &sconce_ops::device::for_tests())
                .expect("outputs");
            number(&loss.forward(&moved, &targets).expect("a loss"))
        };
        let gradients: Vec<f64> = (0..at.len())
            .map(|index| (difference(index, 1e-6) - difference(index, -1e-6)) / 2e-6)
            .collect();
        close(&gradient(&loss, &outputs, &targets), &gradients, 1e-8);
    }
}

/// The formula of [`CrossEntropy`] in plain loops.
fn slow_cross_entropy(loss: &CrossEntropy, rows: &[Vec<f64>], targets: &[u32]) -> f64 {
    let ones = vec![1.0; rows[0].len()];
    let weights = loss.class_weights.as_ref().unwrap_or(&ones);
    let (mut sum, mut weight) = (0.0, 0.0);
    for (row, &target) in rows.iter().zip(targets) {
        if Some(target) == loss.ignore_index {
            continue;
        }
        let normaliser: f64 = row.iter().map(|x| x.exp()).sum();
        let smoothed = |class: usize| {
            let share = loss.label_smoothing / row.len() as f64;
            share
                + if class == target as usize {
                    1.0 - loss.label_smoothing
                } else {
                    0.0
                }
        };
        for (class, x) in row.iter().enumerate() {
            sum -= weights[class] * smoothed(class) * (x.exp() / normaliser).ln();
        }
        weight += weights[target as usize];
    }
    sum / weight
}

#[test]
fn cross_entropy_is_its_formula() {
    let rows = vec![
        vec![0.5, -1.0, 2.0],
        vec![3.0, 0.1, 0.2],
        vec![0.0, 0.0, 1.0],
        vec![-1.0, 4.0, 0.0],
    ];
    let targets = [1, 0, 2, 0];
    let logits = Tensor::new(rows.clone(), &sconce_ops::device::for_tests()).expect("logits");
    let classes = Tensor::new(&targets, &sconce_ops::device::for_tests()).expect("targets");
    for label_smoothing in [0.0, 0.1] {
        for class_weights in [None, Some(vec![0.25, 1.0, 4.0])] {
            for ignore_index in [None, Some(0), Some(7)] {
                let loss = CrossEntropy {
                    label_smoothing,
                    class_weights: class_weights.clone(),
                    ignore_index,
                };
                let found = number(&loss.forward(&logits, &classes, None).expect("a loss"));
                let expected = slow_cross_entropy(&loss, &rows, &targets);
                close(&[found], &[expected], 1e-12);
            }
        }
    }
}

#[test]
fn means_of_unequal_batches_add_up() {
    for (loss, outputs, targets, _) in cases() {
        let whole = number(&loss.forward(&outputs, &targets).expect("a loss"));
        let samples = outputs.dim(0).expect("samples");
        let (mut sum, mut weights) = (0.0, 0.0);
        for (start, count) in [(0, 1), (1, samples - 1)] {
            let outputs = outputs.narrow(0, start, count).expect("a part");
            let targets = targets.narrow(0, start, count).expect("a part");
            let weight = loss.weight(&targets).expect("a weight");
            sum += weight * number(&loss.forward(&outputs, &targets).expect("a loss"));
            weights += weight;
        }
        close(&[sum / weights], &[whole], 1e-12);
    }
}

#[test]
fn where_nothing_counts_the_loss_is_zero_with_a_gradient_of_zeros() {
    let outputs = [[1.0_f64, 2.0], [f64::NAN, 4.0]];
    let outputs = Tensor::new(&outputs, &sconce_ops::device::for_tests()).expect("outputs");
    let targets = Tensor::new(&[1_u32, 1], &sconce_ops::device::for_tests()).expect("targets");
    let ignored = CrossEntropy {
        ignore_index: Some(1),
        ..CrossEntropy::default()
    };
    let weightless = CrossEntropy {
        class_weights: Some(vec![1.0, 0.0]),
        ..CrossEntropy::default()
    };
    for loss in [Loss::CrossEntropy(ignored), Loss::CrossEntropy(weightless)] {
        let value = loss.forward(&outputs, &targets).expect("a loss");
        close(&[number(&value)], &[0.0], 0.0);
        close(&[loss.weight(&targets).expect("a weight")], &[0.0], 0.0);
        close(&gradient(&loss, &outputs, &targets), &[0.0; 4], 0.0);
    }
}

#[test]
fn what_is_ignored_may_hold_anything() {
    let outputs = [[1.0_f64, 2.0], [f64::NAN, f64::INFINITY]];
    let outputs = Tensor::new(&outputs, &sconce_ops::device::for_tests()).expect("outputs");
    let targets = Tensor::new(&[1_u32, 99], &sconce_ops::device::for_tests()).expect("targets");
    let loss = Loss::CrossEntropy(CrossEntropy {
        ignore_index: Some(99),
        ..CrossEntropy::default()
    });
    let value = number(&loss.forward(&outputs, &targets).expect("a loss"));
    close(&[value], &[(1.0_f64 + (-1.0_f64).exp()).ln()], 1e-12);
    assert!(
        gradient(&loss, &outputs, &targets)
            .iter()
            .all(|g| g.is_finite())
    );
}

#[test]
fn binary_cross_entropy_of_large_logits_neither_overflows_nor_vanishes() {
    let loss = Loss::BinaryCrossEntropy(BinaryCrossEntropy::default());
    let outputs =
        Tensor::new(&[[1e4_f32, -1e4, 50.0]], &sconce_ops::device::for_tests()).expect("outputs");
    let right =
        Tensor::new(&[[1.0_f32, 0.0, 1.0]], &sconce_ops::device::for_tests()).expect("targets");
    let wrong =
        Tensor::new(&[[0.0_f32, 1.0, 0.0]], &sconce_ops::device::for_tests()).expect("targets");
    close(
        &[number(&loss.forward(&outputs, &right).expect("a loss"))],
        &[0.0],
        1e-9,
    );
    let value = number(&loss.forward(&outputs, &wrong).expect("a loss"));
    close(&[value], &[20_050.0 / 3.0], 1e-2);
    let small = gradient(&loss, &outputs, &right)[2];
    let expected = -(-50.0_f64).exp() / 3.0;
    assert!((small / expected - 1.0).abs() < 1e-5, "{small} {expected}");
}

#[test]
fn shapes_and_targets_that_do_not_fit_are_reported() {
    let of = |dims: &[usize]| {
        Tensor::zeros(dims, DType::F32, &sconce_ops::device::for_tests()).expect("zeros")
    };
    let classes = |dims: &[usize], class: u32| {
        Tensor::full(class, dims, &sconce_ops::device::for_tests()).expect("u32")
    };
    let cross_entropy = Loss::CrossEntropy(CrossEntropy::default());
    let binary = Loss::BinaryCrossEntropy(BinaryCrossEntropy::default());
    for (loss, outputs, targets, words) in [
        (
            &cross_entropy,
            of(&[4, 3]),
            classes(&[5], 0),
            "outputs [4, 3] and targets [5]",
        ),
        (
            &cross_entropy,
            of(&[4, 2, 3]),
            classes(&[4], 0),
            "(samples, positions, classes)",
        ),
        (
            &cross_entropy,
            of(&[4]),
            classes(&[], 0),
            "don't belong together",
        ),
        (
            &cross_entropy,
            of(&[4, 3]),
            classes(&[4], 3),
            "target 3 is not one of the outputs' 3 classes",
        ),
        (
            &cross_entropy,
            of(&[4, 3]),
            of(&[4]),
            "classes must be u32, found targets of f32",
        ),
        (
            &Loss::Mse,
            of(&[4, 1]),
            of(&[4]),
            "outputs [4, 1] and targets [4]",
        ),
        (
            &binary,
            of(&[2, 1]),
            of(&[2, 1]).affine(1.0, 2.0).expect("2"),
            "found 2 in the batch's",
        ),
    ] {
        let found = loss.forward(&outputs, &targets);
        // Where targets aren't read, the loss says so.
        let is_of_values = ["not one of the outputs'", "in the batch's"]
            .iter()
            .any(|of_values| words.contains(of_values));
        if is_of_values && !targets.device().is_cpu() {
            assert!(number(&found.expect("a loss")).is_nan(), "{words}");
            continue;
        }
        let error = found.expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_prediction_is_the_largest_logit() {
    let logits = [[1.0_f32, 2.0], [5.0, 2.0], [0.0, 0.0]];
    let logits = Tensor::new(&logits, &sconce_ops::device::for_tests()).expect("logits");
    let targets = Tensor::new(&[1_u32, 1, 0], &sconce_ops::device::for_tests()).expect("targets");
    assert_eq!(correct_count(&logits, &targets).expect("a count"), 2);
}

/// A sample of weight 2 counts as if it were there twice, one of weight 0 not at all, whatever it holds.
#[test]
fn weighted_samples_are_repeated_ones() {
    for (loss, outputs, targets, _) in cases() {
        let samples = targets.dims()[0];
        let counts: Vec<usize> = (0..samples)
            .map(|sample| [2, 1, 0, 3][sample % 4])
            .collect();
        let repeated: Vec<u32> = (0..samples as u32)
            .flat_map(|sample| std::iter::repeat_n(sample, counts[sample as usize]))
            .collect();
        let repeated = Tensor::new(repeated, outputs.device()).expect("indices");
        let of_repeated = |tensor: &Tensor| tensor.index_select(&repeated, 0).expect("samples");
        let weights: Vec<f32> = counts.iter().map(|&count| count as f32).collect();
        let weighted = loss.forward_weighted(&outputs, &targets, Some(&weights));
        let whole = loss.forward(&of_repeated(&outputs), &of_repeated(&targets));
        let [found, expected] = [weighted, whole].map(|loss| number(&loss.expect("a loss")));
        close(&[found], &[expected], 1e-12);
        let weight = loss.weight_of(&targets, Some(&weights)).expect("a weight");
        let expected = loss.weight(&of_repeated(&targets)).expect("a weight");
        close(&[weight], &[expected], 1e-12);
        // The gradient of the weighted loss, by central differences.
        let outputs = Var::from_tensor(&outputs).expect("a variable");
        let value = loss
            .forward_weighted(&outputs, &targets, Some(&weights))
            .expect("a loss");
        let store = value.backward().expect("backward");
        let gradient = store.get(&outputs).expect("a gradient");
        let gradient: Vec<f64> = gradient
            .flatten_all()
            .and_then(|g| g.to_vec1())
            .expect("f64");
        let at: Vec<f64> = outputs
            .flatten_all()
            .and_then(|o| o.to_vec1())
            .expect("f64");
        let difference = |index: usize, step: f64| {
            let mut moved = at.clone();
            moved[index] += step;
            let moved = Tensor::from_vec(moved, outputs.dims(), outputs.device()).expect("outputs");
            number(
                &loss
                    .forward_weighted(&moved, &targets, Some(&weights))
                    .expect("a loss"),
            )
        };
        let gradients: Vec<f64> = (0..at.len())
            .map(|index| (difference(index, 1e-6) - difference(index, -1e-6)) / 2e-6)
            .collect();
        close(&gradient, &gradients, 1e-8);
        assert!(
            loss.forward_weighted(&outputs, &targets, Some(&[1.0; 99]))
                .is_err()
        );
    }
}

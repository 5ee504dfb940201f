//! Metrics compared with values computed by hand, from the formulas in scikit-learn's documentation.

use candle_core::{DType, Tensor};

use super::*;

fn classes(classes: &[u32]) -> Tensor {
    Tensor::new(classes, &sconce_ops::device::for_tests()).expect("classes")
}

/// Logits of three classes with the largest at `predicted`.
fn predicting(predicted: &[u32]) -> Tensor {
    let logit = |row: usize, class: u32, predicted: u32| {
        let high = if class == predicted { 4.0 } else { 0.0 };
        high + (row as f32 * 0.37 + f64::from(class) as f32).sin()
    };
    let rows = predicted.iter().enumerate();
    let logits = rows.flat_map(|(row, &p)| (0..3).map(move |class| logit(row, class, p)));
    Tensor::from_vec(
        logits.collect::<Vec<f32>>(),
        (predicted.len(), 3),
        &sconce_ops::device::for_tests(),
    )
    .expect("logits")
}

fn columns(rows: &[[f32; 2]]) -> Tensor {
    Tensor::from_slice(
        rows.as_flattened(),
        (rows.len(), 2),
        &sconce_ops::device::for_tests(),
    )
    .expect("numbers")
}

/// The values after batches of these sizes.
fn values(metric: &dyn Metric, outputs: &Tensor, targets: &Tensor, sizes: &[usize]) -> Vec<f64> {
    let mut sums = vec![0.0; metric.sum_count()];
    let mut start = 0;
    for &size in sizes {
        let part = |tensor: &Tensor| tensor.narrow(0, start, size).expect("a part");
        metric
            .add(&part(outputs), &part(targets), &mut sums)
            .expect("added");
        start += size;
    }
    let mut values = vec![f64::NAN; metric.names().len()];
    metric.values(&sums, &mut values);
    values
}

fn all(metric: &dyn Metric, outputs: &Tensor, targets: &Tensor) -> Vec<f64> {
    values(
        metric,
        outputs,
        targets,
        &[targets.dim(0).expect("samples")],
    )
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} {expected}");
    }
}

/// The example of scikit-learn's `precision_recall_fscore_support`.
const ACTUAL: [u32; 6] = [0, 1, 2, 0, 1, 2];
const PREDICTED: [u32; 6] = [0, 2, 1, 0, 0, 1];

#[test]
fn precision_recall_and_f1_are_scikit_learns() {
    let (outputs, targets) = (predicting(&PREDICTED), classes(&ACTUAL));
    let (large, small) = (Average::Macro, Average::Micro);
    let of = |metric: &dyn Metric| all(metric, &outputs, &targets)[0];
    // Class 0 has precision 2/3, recall 1 and F1 0.8; the others have 0.
    close(&[of(&Precision::new(3, large, None))], &[2.0 / 9.0], 1e-15);
    close(&[of(&Recall::new(3, large, None))], &[1.0 / 3.0], 1e-15);
    close(&[of(&F1::new(3, large, None))], &[0.8 / 3.0], 1e-15);
    close(&[of(&Precision::new(3, small, None))], &[1.0 / 3.0], 1e-15);
    close(&[of(&Recall::new(3, small, None))], &[1.0 / 3.0], 1e-15);
    close(&[of(&F1::new(3, small, None))], &[1.0 / 3.0], 1e-15);
    close(&[of(&Accuracy::new(None))], &[1.0 / 3.0], 1e-15);
}

#[test]
fn a_class_that_never_occurs_is_no_part_of_the_mean() {
    let (outputs, targets) = (predicting(&[0, 0, 1]), classes(&[0, 1, 1]));
    let of = |metric: &dyn Metric| all(metric, &outputs, &targets)[0];
    close(
        &[of(&Precision::new(3, Average::Macro, None))],
        &[0.75],
        1e-15,
    );
    close(&[of(&Recall::new(3, Average::Macro, None))], &[0.75], 1e-15);
    close(
        &[of(&F1::new(3, Average::Macro, None))],
        &[2.0 / 3.0],
        1e-15,
    );
}

#[test]
fn the_confusion_matrix_has_a_cell_for_each_pair() {
    let names = ["cat", "dog", "owl"].map(str::to_owned).to_vec();
    let metric = ConfusionMatrix::new(names, None);
    assert_eq!(metric.names()[1], "confusion/cat/dog");
    assert_eq!(metric.names()[3], "confusion/dog/cat");
    let found = all(&metric, &predicting(&PREDICTED), &classes(&ACTUAL));
    close(&found, &[2.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 2.0, 0.0], 0.0);
}

#[test]
fn the_target_may_be_among_the_k_largest() {
    let logits = [
        [3.0_f32, 2.0, 1.0],
        [3.0, 2.0, 1.0],
        [3.0, 2.0, 1.0],
        [1.0, 1.0, 1.0],
    ];
    let outputs = Tensor::new(&logits, &sconce_ops::device::for_tests()).expect("logits");
    let targets = classes(&[0, 1, 2, 1]);
    close(&all(&TopK::new(1, None), &outputs, &targets), &[0.25], 0.0);
    close(&all(&TopK::new(2, None), &outputs, &targets), &[0.75], 0.0);
    close(&all(&Accuracy::new(None), &outputs, &targets), &[0.25], 0.0);
    let nan = Tensor::full(f32::NAN, (4, 3), &sconce_ops::device::for_tests()).expect("logits");
    close(&all(&TopK::new(2, None), &nan, &targets), &[0.0], 0.0);
}

#[test]
fn perplexity_is_how_many_classes_are_as_likely() {
    let outputs =
        Tensor::full(1e4_f32, (2, 5, 3), &sconce_ops::device::for_tests()).expect("logits");
    let targets = Tensor::full(1_u32, (2, 5), &sconce_ops::device::for_tests()).expect("classes");
    close(
        &all(&Perplexity::new(None), &outputs, &targets),
        &[3.0],
        1e-12,
    );
    let (outputs, targets) = (predicting(&PREDICTED), classes(&ACTUAL));
    let outputs = outputs.to_dtype(DType::F64).expect("f64");
    let loss = crate::loss::cross_entropy(&outputs, &targets).expect("a loss");
    let expected = loss.to_scalar::<f64>().expect("a number").exp();
    close(
        &all(&Perplexity::new(None), &outputs, &targets),
        &[expected],
        1e-12,
    );
}

#[test]
fn errors_of_numbers_are_scikit_learns() {
    // The example of scikit-learn's `r2_score`, `mean_absolute_error` and `mean_squared_error`.
    let targets = columns(&[[0.5, 1.0], [-1.0, 1.0], [7.0, -6.0]]);
    let outputs = columns(&[[0.0, 2.0], [-1.0, 2.0], [8.0, -5.0]]);
    close(&all(&Mae, &outputs, &targets), &[0.75], 1e-15);
    close(
        &all(&Rmse, &outputs, &targets),
        &[(4.25_f64 / 6.0).sqrt()],
        1e-15,
    );
    let spreads = [1.25 / (217.0 / 6.0), 3.0 / (98.0 / 3.0)];
    let expected = 1.0 - f64::midpoint(spreads[0], spreads[1]);
    close(&all(&R2::new(2), &outputs, &targets), &[expected], 1e-12);
    close(&[expected], &[0.936_800_526_662_277], 1e-9);
}

#[test]
fn r2_of_what_does_not_vary_is_one_or_zero() {
    let targets = columns(&[[0.1, 7.0], [0.1, 7.0], [0.1, 7.0]]);
    close(&all(&R2::new(2), &targets, &targets), &[1.0], 0.0);
    let outputs = columns(&[[0.1, 6.0], [0.1, 7.0], [0.1, 7.0]]);
    close(&all(&R2::new(2), &outputs, &targets), &[0.5], 0.0);
    let one = values(&R2::new(2), &outputs, &targets, &[1]);
    assert!(one[0].is_nan());
}

#[test]
fn r2_keeps_its_digits_where_the_mean_is_large() {
    // 2²³ and steps of 1: the sum of squares agrees to 16 digits with the term subtracted from it.
    let base = 8_388_608.0_f32;
    let samples = 1000_u16;
    let at = |index: u16| f32::from(index % 10);
    let targets: Vec<f32> = (0..samples).map(|index| base + at(index)).collect();
    let outputs: Vec<f32> = targets.iter().map(|target| target + 1.0).collect();
    let tensor = |values: Vec<f32>| {
        let rows = values.len();
        Tensor::from_vec(values, (rows, 1), &sconce_ops::device::for_tests()).expect("numbers")
    };
    // The variance of 0 to 9 is 8.25.
    let found = all(&R2::new(1), &tensor(outputs), &tensor(targets));
    close(&found, &[1.0 - 1.0 / 8.25], 1e-12);
}

#[test]
fn a_yes_is_a_logit_above_zero() {
    let targets = columns(&[[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]);
    let outputs = columns(&[[-1.0, 0.5], [-0.5, 3.0], [2.0, 0.0]]);
    close(
        &all(&BinaryAccuracy, &outputs, &targets),
        &[4.0 / 6.0],
        1e-15,
    );
}

#[test]
fn unequal_batches_add_up_to_the_same_bits() {
    let names: Vec<String> = (0..3).map(|index| index.to_string()).collect();
    let of_classes: Vec<Box<dyn Metric>> = vec![
        Box::new(Accuracy::new(None)),
        Box::new(TopK::new(2, None)),
        Box::new(Precision::new(3, Average::Macro, None)),
        Box::new(Recall::new(3, Average::Micro, None)),
        Box::new(F1::new(3, Average::Macro, Some(1))),
        Box::new(ConfusionMatrix::new(names, None)),
        Box::new(Perplexity::new(Some(2))),
    ];
    let of_numbers: Vec<Box<dyn Metric>> = vec![
        Box::new(Mae),
        Box::new(Rmse),
        Box::new(R2::new(2)),
        Box::new(BinaryAccuracy),
    ];
    let outputs = predicting(&[0, 1, 2, 0, 0, 1, 2, 2, 1, 0]);
    let targets = classes(&[0, 2, 2, 0, 1, 1, 0, 2, 1, 1]);
    let rows: Vec<[f32; 2]> = (0..10_u8)
        .map(|row| [f32::from(row).sin(), f32::from(row).cos()])
        .collect();
    let found = columns(&rows);
    let wanted = found.affine(0.9, 0.05).expect("numbers");
    let cases = of_classes.iter().map(|metric| (metric, &outputs, &targets));
    let numbers = of_numbers.iter().map(|metric| (metric, &found, &wanted));
    for (metric, outputs, targets) in cases.chain(numbers) {
        let whole = values(metric.as_ref(), outputs, targets, &[10]);
        let parts = values(metric.as_ref(), outputs, targets, &[7, 3]);
        assert_eq!(whole, parts, "{:?}", metric.names());
        assert!(
            whole.iter().all(|value| value.is_finite()),
            "{:?}",
            metric.names()
        );
    }
}

#[test]
fn what_is_ignored_does_not_count() {
    let ignored = Some(9);
    let metrics: [Box<dyn Metric>; 5] = [
        Box::new(Accuracy::new(ignored)),
        Box::new(TopK::new(2, ignored)),
        Box::new(F1::new(3, Average::Micro, ignored)),
        Box::new(Perplexity::new(ignored)),
        Box::new(ConfusionMatrix::new(vec![String::new(); 3], ignored)),
    ];
    let predicted = predicting(&[0, 1, 2, 0])
        .reshape((2, 2, 3))
        .expect("positions");
    let targets = classes(&[0, 9, 9, 1]).reshape((2, 2)).expect("positions");
    let kept = predicting(&[0, 1, 2, 0])
        .index_select(&classes(&[0, 3]), 0)
        .expect("kept");
    for metric in metrics {
        let found = all(metric.as_ref(), &predicted, &targets);
        assert_eq!(found, all(metric.as_ref(), &kept, &classes(&[0, 1])));
        // A batch in which all targets are ignored.
        let none = classes(&[9, 9, 9, 9]).reshape((2, 2)).expect("positions");
        let mut sums = vec![0.0; metric.sum_count()];
        metric.add(&predicted, &none, &mut sums).expect("nothing");
        assert!(sums.iter().all(|sum| *sum <= 0.0), "{:?}", metric.names());
    }
}

#[test]
fn outputs_of_another_number_of_classes_are_reported() {
    let metric = ConfusionMatrix::new(vec![String::new(); 4], None);
    let mut sums = [0.0; 16];
    let error = metric.add(&predicting(&[0]), &classes(&[0]), &mut sums);
    let error = error.expect_err("three").to_string();
    assert!(
        error.contains("outputs of 3 classes, where the data has 4"),
        "{error}"
    );
}

/// The sums that the host computes, and those computed by operations on the outputs' device.
fn both_sums(metric: &dyn Metric, outputs: &Tensor, targets: &Tensor) -> (Vec<f64>, Vec<f64>) {
    let mut sums = vec![0.0; metric.sum_count()];
    metric.add(outputs, targets, &mut sums).expect("added");
    let on_device = metric.sums_on_device(outputs, targets).expect("computed");
    let on_device = on_device.expect("it can be computed there");
    (sums, on_device.to_vec1().expect("sums"))
}

#[test]
fn hits_are_counted_alike_on_a_device() {
    let nan = f32::NAN;
    let logits: [[f32; 4]; 7] = [
        [0.1, 0.9, 0.3, 0.2],
        // Equals: the earlier one ranks higher.
        [0.5, 0.5, 0.1, 0.5],
        [0.5, 0.5, 0.1, 0.5],
        // NaN ranks above all, and as a target it is a miss.
        [nan, 0.2, 0.1, 0.0],
        [nan, 0.2, 0.1, 0.0],
        [f32::NEG_INFINITY, -1.0, f32::INFINITY, 0.0],
        [0.4, 0.3, 0.2, 0.1],
    ];
    let outputs = Tensor::new(&logits, &sconce_ops::device::for_tests()).expect("logits");
    let targets = classes(&[1, 1, 0, 0, 1, 2, 3]);
    for ignored in [None, Some(3)] {
        for k in 1..=4 {
            let (host, on_device) = both_sums(&TopK::new(k, ignored), &outputs, &targets);
            assert_eq!(host, on_device, "k = {k}, ignored: {ignored:?}");
        }
        let (host, on_device) = both_sums(&Accuracy::new(ignored), &outputs, &targets);
        assert_eq!(host, on_device);
    }
}

#[test]
fn sums_of_errors_agree_on_a_device() {
    let outputs = predicting(&[0, 2, 1, 1, 0]);
    let targets = classes(&[0, 1, 1, 2, 0]);
    for ignored in [None, Some(1), Some(9)] {
        let (host, on_device) = both_sums(&Perplexity::new(ignored), &outputs, &targets);
        close(&on_device, &host, 1e-5);
    }
    let outputs = columns(&[[0.5, -1.0], [2.0, 0.25], [-3.0, 0.0]]);
    let targets = columns(&[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]);
    for metric in [&Mae as &dyn Metric, &Rmse, &BinaryAccuracy] {
        let (host, on_device) = both_sums(metric, &outputs, &targets);
        close(&on_device, &host, 1e-12);
    }
}

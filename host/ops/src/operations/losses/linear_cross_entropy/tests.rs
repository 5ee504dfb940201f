//! In parts, and one after the other: the same bits.

use candle_core::{Device, Var};

use super::parts::STEP;
use super::*;
use crate::{backward, is_in_parts, normal_numbers, record};

const INPUTS: usize = 33;
const CLASSES: usize = 50;

/// Inputs, weight and bias of a layer, and targets of which some don't count.
struct Case {
    x: Var,
    weight: Var,
    bias: Option<Var>,
    order: WeightOrder,
    targets: Vec<Option<u32>>,
    terms: CrossEntropyTerms,
}

impl Case {
    fn new(rows: usize, order: WeightOrder, has_bias: bool, terms: CrossEntropyTerms) -> Case {
        let var = |seed, dims: &[usize]| {
            // The kernels are the CPU's.
            let numbers = normal_numbers(seed, dims).and_then(|it| it.to_device(&Device::Cpu));
            Var::from_tensor(&numbers.expect("numbers")).expect("a variable")
        };
        let of_row = |row: usize| (row % 7 != 3).then_some((row * 31 % CLASSES) as u32);
        Case {
            x: var(1, &[rows, INPUTS]),
            weight: var(2, &order.shape(INPUTS, CLASSES)),
            bias: has_bias.then(|| var(3, &[CLASSES])),
            order,
            targets: (0..rows).map(of_row).collect(),
            terms,
        }
    }

    fn layer(&self) -> LinearParameters {
        LinearParameters {
            weight: self.weight.as_tensor().clone(),
            order: self.order,
            bias: self.bias.as_ref().map(|bias| bias.as_tensor().clone()),
        }
    }

    fn in_parts(&self, seen: &mut Vec<Tensor>) -> Result<Tensor> {
        let dims = [self.targets.len(), CLASSES];
        let rows = TargetRows::new(dims, &self.targets, self.terms.clone(), 70.0)?;
        in_parts(&self.x, &self.layer(), rows, STEP, &mut |rows, logits| {
            assert_eq!(logits.dims(), [rows.len(), CLASSES]);
            seen.push(logits.copy()?);
            Ok(())
        })
    }

    fn whole(&self) -> Result<(Tensor, Tensor)> {
        let bias = self.bias.as_ref().map(Var::as_tensor);
        let logits = linear_with(&self.x, (&self.weight, self.order), bias, None)?;
        let loss = cross_entropy(&logits, &self.targets, self.terms.clone(), 70.0)?;
        Ok((loss, logits.detach()))
    }

    /// The gradients of a loss, for one of `factor`.
    fn gradients(&self, loss: &Tensor, factor: f64) -> Result<Vec<Vec<u32>>> {
        let store = backward(loss, factor)?;
        let inputs = [Some(&self.x), Some(&self.weight), self.bias.as_ref()];
        let of_each = inputs.into_iter().flatten();
        of_each
            .map(|input| bits(store.get(input).expect("a gradient")))
            .collect()
    }
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    let numbers: Vec<f32> = tensor.flatten_all()?.to_vec1()?;
    Ok(numbers.into_iter().map(f32::to_bits).collect())
}

fn cases() -> Vec<Case> {
    let plain = CrossEntropyTerms::default;
    let weights = (0..CLASSES).map(|class| 0.5 + class as f64 / 20.0);
    let of_classes = CrossEntropyTerms {
        smoothing: 0.1,
        weights: Some(weights.collect()),
        rows: None,
    };
    let of_rows = CrossEntropyTerms {
        smoothing: 0.05,
        weights: None,
        rows: Some((0..200).map(|row| f64::from(row % 3)).collect()),
    };
    // Parts of 64 rows; the last of 79, 16 and 8 + 64.
    vec![
        Case::new(64 + 79, WeightOrder::OutputsInputs, true, plain()),
        Case::new(128 + 16, WeightOrder::InputsOutputs, false, of_classes),
        Case::new(200, WeightOrder::OutputsInputs, false, of_rows),
        Case::new(200, WeightOrder::InputsOutputs, true, plain()),
    ]
}

#[test]
fn bits_are_those_of_layer_and_loss_one_after_the_other() -> Result<()> {
    for case in cases() {
        let wanted = LinearSizes::of(case.x.dims(), case.weight.dims(), case.order)?;
        // Composed of candle's operations, the layer alone has other bits.
        if is_chosen(&case.x) || BlockedLinear::of(wanted, Terms::Singles).is_none() {
            return Ok(());
        }
        for factor in [1.0, 0.25] {
            let recording = record();
            let (whole, logits) = case.whole()?;
            let expected = case.gradients(&whole, factor)?;
            drop(recording);
            let recording = record();
            let mut seen = Vec::new();
            let loss = case.in_parts(&mut seen)?;
            assert_eq!(bits(&loss)?, bits(&whole)?);
            assert_eq!(bits(&Tensor::cat(&seen, 0)?)?, bits(&logits)?);
            assert!(seen.len() > 1, "it was in one part");
            assert_eq!(case.gradients(&loss, factor)?, expected);
            drop(recording);
        }
    }
    Ok(())
}

#[test]
fn without_a_recording_gradients_are_computed_when_they_are_asked_for() -> Result<()> {
    for case in cases() {
        let wanted = LinearSizes::of(case.x.dims(), case.weight.dims(), case.order)?;
        // Composed of candle's operations, the layer alone has other bits.
        if is_chosen(&case.x) || BlockedLinear::of(wanted, Terms::Singles).is_none() {
            return Ok(());
        }
        let recording = record();
        let expected = case.gradients(&case.in_parts(&mut Vec::new())?, 1.0)?;
        drop(recording);
        let loss = case.in_parts(&mut Vec::new())?;
        // Twice, by candle's own pass.
        for _ in 0..2 {
            let store = loss.backward()?;
            let of_x = store.get(&case.x).expect("a gradient");
            assert_eq!(bits(of_x)?, expected[0]);
        }
    }
    Ok(())
}

#[test]
fn gradients_are_right_for_any_factor() -> Result<()> {
    let case = &cases()[0];
    let recording = record();
    let (x, weight) = (
        case.x.to_dtype(DType::F64)?,
        case.weight.to_dtype(DType::F64)?,
    );
    let (x, weight) = (Var::from_tensor(&x)?, Var::from_tensor(&weight)?);
    let bias = case.layer().bias.expect("a bias").to_dtype(DType::F64)?;
    let exact = linear_with(&x, (&weight, case.order), Some(&bias), None)?;
    let exact = cross_entropy(&exact, &case.targets, case.terms.clone(), 70.0)?;
    let exact = backward(&exact, 1.0 / 3.0)?;
    drop(recording);
    let recording = record();
    let store = backward(&case.in_parts(&mut Vec::new())?, 1.0 / 3.0)?;
    drop(recording);
    for (found, exact) in [
        (store.get(&case.x), exact.get(&x)),
        (store.get(&case.weight), exact.get(&weight)),
    ] {
        let (found, exact) = (found.expect("a gradient"), exact.expect("a gradient"));
        let error = (found.to_dtype(DType::F64)? - exact)?.abs()?.max_all()?;
        let size = exact.abs()?.max_all()?.to_scalar::<f64>()?;
        let error = error.to_scalar::<f64>()?;
        assert!(error <= 1e-5 * size, "{error} of {size}");
    }
    Ok(())
}

#[test]
fn few_logits_are_computed_at_once() -> Result<()> {
    let case = &cases()[0];
    assert!(!is_in_parts(&case.x, &case.layer()));
    let mut parts = Vec::new();
    let loss = linear_cross_entropy(
        &case.x,
        &case.layer(),
        &case.targets,
        case.terms.clone(),
        70.0,
        &mut |rows, _| {
            parts.push(rows);
            Ok(())
        },
    )?;
    assert_eq!(parts, std::slice::from_ref(&(0..143)));
    assert_eq!(bits(&loss)?, bits(&case.whole()?.0)?);
    // GPT-2's vocabulary: 166 rows are 32 MiB of logits.
    assert_eq!(rows_at_once(50_257), 128);
    assert_eq!(rows_at_once(1 << 20), 64);
    assert!(are_many(1024, 50_257) && !are_many(256, 50_257) && !are_many(64, 1 << 20));
    Ok(())
}

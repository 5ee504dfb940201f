//! Cross entropy.

use candle_core::{DType, Result, Tensor, bail};

use super::shapes::{LogitRows, check_weights, classes_of, logit_rows};
use crate::ops::{self, CrossEntropyTerms, LinearParameters};

/// Mean cross entropy of logits (samples, classes) with target classes (samples): the mean over the
/// samples of log Σᵢ exp(xᵢ) − x\[target\], a scalar. Also for (samples, positions, classes) and
/// (samples, positions).
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    CrossEntropy::default().forward(logits, targets, None)
}

/// Cross entropy as `torch.nn.CrossEntropyLoss` computes it for class indices: with the weight w of
/// each class, the smoothing ε, C classes and n rows (samples or positions) that aren't ignored,
///
/// (1 − ε) · Σₙ w\[yₙ\] · ℓ(n, yₙ) + ε / C · Σₙ Σᵢ w\[i\] · ℓ(n, i), divided by Σₙ w\[yₙ\],
///
/// where ℓ(n, c) = log Σᵢ exp(xₙᵢ) − xₙ\[c\]. If the divisor is 0, the loss is 0, not NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrossEntropy {
    /// ε, from 0 to below 1.
    pub label_smoothing: f64,
    /// Weight of each class; all 1 by default.
    pub class_weights: Option<Vec<f64>>,
    /// Target class to ignore; it does not have to be one of the classes.
    pub ignore_index: Option<u32>,
}

impl CrossEntropy {
    /// Returns the loss, a scalar. `weights` are those of samples, which the terms of each and its part of the divisor are
    /// multiplied by.
    ///
    /// With targets on another device than the CPU, it does not wait for the device: a target that is none of the
    /// classes makes the loss NaN there.
    pub fn forward(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        weights: Option<&[f32]>,
    ) -> Result<Tensor> {
        let of_rows = weights.map(|weights| by_row(weights, targets));
        if !targets.device().is_cpu() {
            return self.on_device(outputs, targets, of_rows);
        }
        let rows = LogitRows::new(outputs, targets)?;
        let targets = self.counted(rows.targets);
        let weight = self.sum(&targets, of_rows.as_deref())?;
        if weight <= 0.0 {
            return nothing(outputs);
        }
        ops::cross_entropy(&rows.logits, &targets, self.terms(of_rows), weight)
    }

    /// As [`forward`](CrossEntropy::forward), of the outputs of a layer for `x`, (samples, inputs) or (samples, positions, inputs), on
    /// the CPU, without [all outputs at once](ops::linear_cross_entropy) in memory. `each` is given logits (rows, classes) and targets
    /// (rows) of some rows after the other; it must not keep the logits.
    pub fn of_layer(
        &self,
        (layer, x): (&LinearParameters, &Tensor),
        targets: &Tensor,
        weights: Option<&[f32]>,
        each: &mut dyn FnMut(&Tensor, &Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        check_weights(targets, weights)?;
        let of_rows = weights.map(|weights| by_row(weights, targets));
        let (x, classes) = logit_rows(x, targets)?;
        let mut targets = self.counted(classes_of(&classes)?);
        let mut weight = self.sum(&targets, of_rows.as_deref())?;
        if weight <= 0.0 {
            // A loss of 0, and gradients of 0.
            targets.fill(None);
            weight = 1.0;
        }
        let terms = self.terms(of_rows);
        ops::linear_cross_entropy(&x, layer, &targets, terms, weight, &mut |rows, logits| {
            each(logits, &classes.narrow(0, rows.start, rows.len())?)
        })
    }

    /// The targets that count.
    fn counted(&self, targets: Vec<u32>) -> Vec<Option<u32>> {
        let counted = |target: u32| Some(target).filter(|_| Some(target) != self.ignore_index);
        targets.into_iter().map(counted).collect()
    }

    fn terms(&self, of_rows: Option<Vec<f64>>) -> CrossEntropyTerms {
        CrossEntropyTerms {
            smoothing: self.label_smoothing,
            weights: self.class_weights.clone(),
            rows: of_rows,
        }
    }

    fn on_device(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        of_rows: Option<Vec<f64>>,
    ) -> Result<Tensor> {
        let (logits, targets) = logit_rows(outputs, targets)?;
        let terms = self.terms(of_rows);
        ops::cross_entropy_on_device(&logits, &targets, self.ignore_index, &terms)
    }

    /// Returns the sum of the weights of all targets that count, each times that of its sample.
    pub fn weight(&self, targets: &Tensor, weights: Option<&[f32]>) -> Result<f64> {
        if self.class_weights.is_none() && self.ignore_index.is_none() && weights.is_none() {
            return Ok(targets.elem_count() as f64);
        }
        let of_rows = weights.map(|weights| by_row(weights, targets));
        let targets = self.counted(classes_of(targets)?);
        self.sum(&targets, of_rows.as_deref())
    }

    fn sum(&self, targets: &[Option<u32>], of_rows: Option<&[f64]>) -> Result<f64> {
        let mut sum = 0.0;
        for (row, target) in targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let of_row = of_rows.map_or(1.0, |rows| rows.get(row).copied().unwrap_or(0.0));
            let of_class = match &self.class_weights {
                None => 1.0,
                Some(weights) => match weights.get(*target as usize) {
                    Some(weight) => *weight,
                    None => bail!(
                        "the target {target} has none of the {} class weights",
                        weights.len()
                    ),
                },
            };
            sum += of_row * of_class;
        }
        Ok(sum)
    }
}

/// The weight of each target: that of its sample.
fn by_row(weights: &[f32], targets: &Tensor) -> Vec<f64> {
    let positions = targets.elem_count() / weights.len().max(1);
    let each = weights.iter();
    each.flat_map(|&weight| std::iter::repeat_n(f64::from(weight), positions))
        .collect()
}

/// Returns a loss of 0 whose gradient is all zeros, whatever the outputs are.
fn nothing(outputs: &Tensor) -> Result<Tensor> {
    let none = Tensor::zeros(outputs.dims(), DType::U8, outputs.device())?;
    none.where_cond(outputs, &outputs.zeros_like()?)?.sum_all()
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    fn targets(targets: &[u32]) -> Tensor {
        Tensor::new(targets, &sconce_ops::device::for_tests()).expect("targets")
    }

    /// The formula computed in plain loops.
    fn slow(logits: &[[f64; 3]], targets: &[usize]) -> f64 {
        let losses = logits.iter().zip(targets).map(|(row, &target)| {
            let sum: f64 = row.iter().map(|x| x.exp()).sum();
            sum.ln() - row[target]
        });
        losses.sum::<f64>() / logits.len() as f64
    }

    #[test]
    fn value_and_gradient_are_those_of_the_formula() {
        let rows = [[0.5, -1.0, 2.0], [3.0, 0.1, 0.2]];
        let logits = Var::new(&rows, &sconce_ops::device::for_tests()).expect("logits");
        let loss = cross_entropy(&logits, &targets(&[1, 0])).expect("loss");
        let value: f64 = loss.to_scalar().expect("a number");
        assert!((value - slow(&rows, &[1, 0])).abs() < 1e-12);
        let store = loss.backward().expect("backward");
        let gradient: Vec<Vec<f64>> = store.get(&logits).expect("it").to_vec2().expect("numbers");
        for row in 0..2 {
            for column in 0..3 {
                let at = |step: f64| {
                    let mut moved = rows;
                    moved[row][column] += step;
                    slow(&moved, &[1, 0])
                };
                let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!(
                    (slope - gradient[row][column]).abs() < 1e-9,
                    "{row} {column}"
                );
            }
        }
    }

    #[test]
    fn large_logits_neither_overflow_nor_vanish() {
        let logits =
            Tensor::new(&[[1e4_f32, 0.0, -1e4]], &sconce_ops::device::for_tests()).expect("logits");
        let of = |target| {
            let loss = cross_entropy(&logits, &targets(&[target])).expect("loss");
            loss.to_scalar::<f32>().expect("a number")
        };
        assert!(of(0).abs() < f32::EPSILON);
        assert!((of(2) - 2e4).abs() < 1.0);
    }
}

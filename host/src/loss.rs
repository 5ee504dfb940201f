//! Losses, and the counts behind metrics.

use candle_core::{D, Result, Tensor};

/// The cross entropy of logits (batch, classes) against class indices (batch): the mean over the
/// batch of log Σᵢ exp(xᵢ) − x\[target\], a scalar.
///
/// Written out of plain operations: candle's fused `softmax_last_dim` has no backward pass.
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let samples = targets.dim(0)?;
    // The largest logit is taken off first, so that no exponential overflows. It is detached: the
    // result does not depend on it, so neither does the gradient.
    let largest = logits.max_keepdim(D::Minus1)?.detach();
    let shifted = logits.broadcast_sub(&largest)?;
    let log_sum = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    let chosen = shifted.gather(&targets.unsqueeze(D::Minus1)?, D::Minus1)?;
    let total = log_sum.sub(&chosen)?.sum_all()?;
    total.affine(1.0 / samples.max(1) as f64, 0.0)
}

/// How many samples have their largest logit at their target; the first of equal ones counts.
pub fn correct_count(logits: &Tensor, targets: &Tensor) -> Result<usize> {
    let predicted: Vec<u32> = logits.argmax(D::Minus1)?.to_vec1()?;
    let targets: Vec<u32> = targets.to_vec1()?;
    let pairs = predicted.iter().zip(&targets);
    Ok(pairs
        .filter(|(predicted, target)| predicted == target)
        .count())
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    fn targets(targets: &[u32]) -> Tensor {
        Tensor::new(targets, &Device::Cpu).expect("targets")
    }

    /// The formula in plain numbers.
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
        let logits = Var::new(&rows, &Device::Cpu).expect("logits");
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
        let logits = Tensor::new(&[[1e4_f32, 0.0, -1e4]], &Device::Cpu).expect("logits");
        let of = |target| {
            let loss = cross_entropy(&logits, &targets(&[target])).expect("loss");
            loss.to_scalar::<f32>().expect("a number")
        };
        assert!(of(0).abs() < f32::EPSILON);
        assert!((of(2) - 2e4).abs() < 1.0);
    }

    #[test]
    fn a_prediction_is_the_largest_logit() {
        let logits = Tensor::new(&[[1.0_f32, 2.0], [5.0, 2.0], [0.0, 0.0]], &Device::Cpu);
        let logits = logits.expect("logits");
        assert_eq!(
            correct_count(&logits, &targets(&[1, 1, 0])).expect("count"),
            2
        );
    }
}

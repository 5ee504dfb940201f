//! Predictions for several views of each sample, as one: test-time augmentation.

use candle_core::{D, DType, Result, Tensor};

use crate::data::Targets;

/// The mean over the views of each sample, of outputs (views · samples, …), all samples of one view after those of another: of
/// numbers, or of the probabilities of classes, of which it returns the logarithm.
pub fn mean_of_views(outputs: &Tensor, samples: usize, targets: &Targets) -> Result<Tensor> {
    let views = outputs.dim(0)? / samples.max(1);
    if views <= 1 {
        return Ok(outputs.clone());
    }
    let mut shape = vec![views, samples];
    shape.extend(outputs.dims().iter().skip(1));
    let outputs = outputs.to_dtype(DType::F32)?.reshape(shape)?;
    if let Targets::Numbers(_) = targets {
        return outputs.mean(0);
    }
    let sums = outputs.log_sum_exp(D::Minus1)?.unsqueeze(D::Minus1)?;
    let logarithms = outputs.broadcast_sub(&sums)?;
    logarithms.log_sum_exp(0)?.affine(1.0, -(views as f64).ln())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn probabilities_and_numbers_are_averaged_by_sample() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let rows = [[0.0_f32, 0.0], [1.0, 3.0], [0.0, 2.0], [-1.0, 0.5]];
        let outputs = Tensor::new(&rows, &Device::Cpu).expect("outputs");
        let numbers = mean_of_views(&outputs, 2, &Targets::Numbers(names(&["x", "y"])));
        let numbers: Vec<Vec<f32>> = numbers.and_then(|mean| mean.to_vec2()).expect("numbers");
        assert_eq!(numbers, [[0.0, 1.0], [0.0, 1.75]]);
        let classes = mean_of_views(&outputs, 2, &Targets::Class(names(&["a", "b"])));
        let classes: Vec<Vec<f32>> = classes.and_then(|mean| mean.to_vec2()).expect("classes");
        let second = |row: [f32; 2]| 1.0 / (1.0 + (row[0] - row[1]).exp());
        for (sample, found) in classes.iter().enumerate() {
            let expected = second(rows[sample]).midpoint(second(rows[sample + 2]));
            assert!((found[1].exp() - expected).abs() < 1e-6);
            assert!((found[0].exp() + found[1].exp() - 1.0).abs() < 1e-6);
        }
        let one = mean_of_views(&outputs, 4, &Targets::Class(names(&["a", "b"])));
        let one: Vec<Vec<f32>> = one.and_then(|one| one.to_vec2()).expect("as they are");
        assert_eq!(one, rows);
    }
}

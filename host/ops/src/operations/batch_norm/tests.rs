//! Tests that fused batch norms have the bits of one operation after the other.

use candle_core::Var;

use super::*;
use crate::{normal_numbers, relu};

const EPSILON: f64 = 1e-5;

/// Outputs and gradients of all inputs, as bits.
fn bits(y: &Tensor, inputs: [&Var; 3]) -> Result<Vec<Vec<u32>>> {
    let factors = normal_numbers(9, y.shape())?;
    let gradients = (y * factors)?.sum_all()?.backward()?;
    let of = |var: &Var| gradients.get(var).cloned().expect("a gradient");
    let all = [y.clone()].into_iter().chain(inputs.map(of));
    let exactly = |tensor: Tensor| -> Result<Vec<u32>> {
        let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
        Ok(numbers.into_iter().map(f32::to_bits).collect())
    };
    all.map(exactly).collect()
}

#[test]
fn statistics_and_relu_in_the_same_operation_do_not_change_a_bit() -> Result<()> {
    // One that a single thread does, and one that all do.
    for dims in [[3, 2, 5, 1], [40, 24, 9, 8]] {
        let random = |seed, shape: &[usize]| Var::from_tensor(&normal_numbers(seed, shape)?);
        let inputs = [
            &random(0, &dims)?,
            &random(1, &dims[1..2])?,
            &random(2, &dims[1..2])?,
        ];
        let [x, weight, bias] = inputs;
        let statistics = ChannelStatistics::of(x)?;
        let apart = batch_norm(x, weight, bias, &statistics, EPSILON, true)?;
        let tensors = [x.as_tensor(), weight.as_tensor(), bias.as_tensor()];
        let (together, found) = batch_norm_of_batch(tensors, EPSILON, false)?;
        assert_eq!(found.count, statistics.count);
        assert_eq!(
            found.mean.to_vec1::<f32>()?,
            statistics.mean.to_vec1::<f32>()?
        );
        assert_eq!(
            found.variance.to_vec1::<f32>()?,
            statistics.variance.to_vec1::<f32>()?
        );
        assert!(bits(&together, inputs)? == bits(&apart, inputs)?);
        let (together, _) = batch_norm_of_batch(tensors, EPSILON, true)?;
        assert!(bits(&together, inputs)? == bits(&relu(&apart)?, inputs)?);

        let apart = relu(&batch_norm(x, weight, bias, &statistics, EPSILON, false)?)?;
        let source = StatisticsSource::Constant;
        let together = batch_norm_then(tensors, &statistics, source, EPSILON, true)?;
        assert!(bits(&together, inputs)? == bits(&apart, inputs)?);
    }
    Ok(())
}

#[test]
fn weights_of_another_size_are_refused() -> Result<()> {
    let (x, weight) = (normal_numbers(0, (3, 2, 5))?, normal_numbers(1, 3)?);
    assert!(batch_norm_of_batch([&x, &weight, &weight], EPSILON, false).is_err());
    Ok(())
}

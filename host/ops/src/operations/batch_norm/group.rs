//! Normalisation of groups of channels.

use candle_core::{Result, Tensor, bail};

use super::batch_norm_then;
use crate::autograd::tape::reshape;
use crate::operations::row_norm::layer_norm;
use crate::statistics::{ChannelStatistics, StatisticsSource};

/// (x − mean) / √(variance + ε) · weight + bias, with the statistics of each group of channels of each sample of x (batch, channels, …)
/// (Wu and He, 2018); weight and bias are of each channel.
pub fn group_norm([x, weight, bias]: [&Tensor; 3], groups: usize, epsilon: f64) -> Result<Tensor> {
    let &[batch, channels, ..] = x.dims() else {
        bail!(
            "a group norm wants (batch, channels, …), found {:?}",
            x.dims()
        )
    };
    if groups == 0 || !channels.is_multiple_of(groups) {
        bail!("{channels} channels can't be divided into {groups} groups")
    }
    let (dtype, device) = (weight.dtype(), weight.device());
    let (ones, zeros) = (
        |count: usize| Tensor::ones(count, dtype, device),
        |count: usize| Tensor::zeros(count, dtype, device),
    );
    // A group of a sample is a row; its norm has no weight and no bias of its own.
    let row = x.elem_count() / (batch * groups).max(1);
    let rows = reshape(x, (batch * groups, row))?;
    let normal = layer_norm(&rows, &ones(row)?, &zeros(row)?, epsilon)?;
    let normal = reshape(&normal, x.dims())?;
    // Statistics that change nothing: what is left of a batch norm is its weight and its bias.
    let none = ChannelStatistics {
        mean: zeros(channels)?,
        variance: ones(channels)?,
        count: 0,
    };
    batch_norm_then(
        [&normal, weight, bias],
        &none,
        StatisticsSource::Constant,
        0.0,
        false,
    )
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    #[test]
    fn gradients_are_right() {
        let var = |seed, shape: &[usize]| {
            let x = normal_numbers(seed, shape).and_then(|x| x.to_dtype(DType::F64));
            x.and_then(|x| Var::from_tensor(&x)).expect("a variable")
        };
        let inputs = [var(1, &[2, 4, 3, 2]), var(2, &[4]), var(3, &[4])];
        let report = check_gradients(&inputs, |inputs| {
            group_norm([&inputs[0], &inputs[1], &inputs[2]], 2, 1e-5)?.sqr()
        });
        assert!(report.is_right(), "{report}");
        assert!(group_norm([&inputs[0], &inputs[1], &inputs[2]], 3, 1e-5).is_err());
    }
}

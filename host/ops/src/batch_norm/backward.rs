//! Gradients of a batch norm's inputs.

use std::mem::MaybeUninit;

use candle_core::{Result, WithDType};

use super::{Channels, SharedBatch, sum_of};
use crate::kernels::fill::{InterleavedRows, Rows, fill_parts};
use crate::kernels::math::sum;
use crate::kernels::write_all;
use crate::storage::{Number, number};
use crate::vectorised;

vectorised! {
    /// Σ g · (x − mean) · scale.
    fn product_of<T: Number>(x: &[T], g: &[T], mean: T, scale: T) -> T {
        sum([x, g], |[x, g]| g * ((x - mean) * scale))
    }
}

vectorised! {
    fn input_gradient<'a, T: Number>(
        x: &[T],
        g: &[T],
        mean: T,
        scale: T,
        w: T,
        of_mean: T,
        of_scale: T,
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let both = x.iter().zip(g);
        let gradient = |(&x, &g): (&T, &T)| {
            w * scale * (g - of_mean - (x - mean) * scale * of_scale)
        };
        write_all(gradients, both.map(gradient))
    }
}

/// What a backward pass reads.
pub(super) struct Backward<'a, T> {
    pub(super) channels: Channels,
    /// Each channel's mean and 1 / √(variance + ε).
    pub(super) moments: &'a [(T, T)],
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    /// Gradient of the output.
    pub(super) g: &'a [T],
}

/// Gradients of the inputs of a batch norm.
pub(super) struct InputGradients<T> {
    pub(super) x: Vec<T>,
    pub(super) weight: Vec<T>,
    pub(super) bias: Vec<T>,
}

/// A channel's means of g and of g · n, where n is the normalised input.
type Means<T> = (T, T);

impl<T: Number> Backward<'_, T> {
    /// A channel's Σ g and Σ g · n over this input.
    fn sums(&self, channel: usize) -> (T, T) {
        let (mean, scale) = self.moments[channel];
        let of_bias = self
            .channels
            .total(channel, |sample| sum_of(&self.g[sample]));
        let of_weight = self.channels.total(channel, |sample| {
            product_of(&self.x[sample.clone()], &self.g[sample], mean, scale)
        });
        (of_bias, of_weight)
    }

    /// Writes the input's gradient for the next channel of a part, which is `channel`.
    fn write(
        &self,
        channel: usize,
        (of_mean, of_scale): Means<T>,
        part: &mut InterleavedRows<'_, T>,
    ) {
        let ((mean, scale), w) = (self.moments[channel], self.weight[channel]);
        part.write_next(|sample, gradients| {
            let range = self.channels.range(sample, channel);
            let (x, g) = (&self.x[range.clone()], &self.g[range]);
            input_gradient(x, g, mean, scale, w, of_mean, of_scale, gradients)
        });
    }

    /// The gradients in one parallel region, where statistics are of this input or constants.
    pub(super) fn at_once(&self, of_batch: bool) -> InputGradients<T> {
        let channels = &self.channels;
        let count = number::<T>((channels.batch * channels.inner).max(1) as f64);
        let mut of_weight = vec![T::ZERO; channels.count];
        let mut of_bias = vec![T::ZERO; channels.count];
        let memory = (
            channels.result(),
            Rows::new(&mut of_weight, 1),
            Rows::new(&mut of_bias, 1),
        );
        let (of_x, (), ()) = fill_parts(channels.schedule(), memory, |own, parts| {
            let (mut gradients, weights, biases) = parts;
            for ((channel, weight), bias) in own.clone().zip(weights).zip(biases) {
                (*bias, *weight) = self.sums(channel);
                let means = if of_batch {
                    (*bias / count, *weight / count)
                } else {
                    (T::ZERO, T::ZERO)
                };
                self.write(channel, means, &mut gradients);
            }
            (gradients.finish(), (), ())
        });
        InputGradients {
            x: of_x,
            weight: of_weight,
            bias: of_bias,
        }
    }

    /// The gradients where statistics are of the inputs of all ranks, of `count` values for each channel: all channels'
    /// sums first, which the ranks exchange.
    pub(super) fn across(&self, batch: &SharedBatch, count: usize) -> Result<InputGradients<T>> {
        let channels = &self.channels;
        let mut of_weight = vec![T::ZERO; channels.count];
        let mut of_bias = vec![T::ZERO; channels.count];
        let memory = (Rows::new(&mut of_weight, 1), Rows::new(&mut of_bias, 1));
        fill_parts(channels.schedule(), memory, |own, (weights, biases)| {
            for ((channel, weight), bias) in own.clone().zip(weights).zip(biases) {
                (*bias, *weight) = self.sums(channel);
            }
            ((), ())
        });
        let own = of_bias.iter().chain(&of_weight);
        let sums = batch.sums(own.map(|&sum| WithDType::to_f64(sum)).collect())?;
        let means: Vec<T> = sums
            .into_iter()
            .map(|sum| number(sum / count.max(1) as f64))
            .collect();
        let (of_mean, of_scale) = means.split_at(channels.count);
        let of_x = fill_parts(channels.schedule(), channels.result(), |own, mut part| {
            for channel in own.clone() {
                self.write(channel, (of_mean[channel], of_scale[channel]), &mut part);
            }
            part.finish()
        });
        Ok(InputGradients {
            x: of_x,
            weight: of_weight,
            bias: of_bias,
        })
    }
}

//! Gradients of a batch norm's inputs.

use std::mem::MaybeUninit;

use candle_core::{Result, WithDType};

use super::{Channels, Factors};
use crate::kernels::fill::{InterleavedRows, Rows, fill_parts};
use crate::kernels::math::{LANES, sum, total};
use crate::kernels::write_all;
use crate::statistics::SharedBatch;
use crate::storage::{Number, number};
use crate::vectorised;

vectorised! {
    /// Σ g, and Σ g · n of the normalised input n.
    fn sums_of<T: Number>(x: &[T], g: &[T], factors: Factors<T>, relu: bool) -> (T, T) {
        if relu {
            let of_bias = sum([x, g], |[x, g]| kept::<true, T>(factors, factors.normalised(x), g));
            let of_weight = sum([x, g], |[x, g]| {
                let n = factors.normalised(x);
                kept::<true, T>(factors, n, g) * n
            });
            (of_bias, of_weight)
        } else {
            (sum([g], |[g]| g), sum([x, g], |[x, g]| g * factors.normalised(x)))
        }
    }
}

vectorised! {
    fn input_gradient<'a, T: Number>(
        x: &[T],
        g: &[T],
        factors: Factors<T>,
        relu: bool,
        means: Means<T>,
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let both = x.iter().zip(g);
        if relu {
            write_all(gradients, both.map(|(&x, &g)| gradient::<true, T>(factors, means, x, g)))
        } else {
            write_all(gradients, both.map(|(&x, &g)| gradient::<false, T>(factors, means, x, g)))
        }
    }
}

/// Gradient of an output before `ReLU`, which is zero where the output is dropped.
#[inline(always)]
fn kept<const RELU: bool, T: Number>(factors: Factors<T>, normalised: T, g: T) -> T {
    if !RELU || factors.output(normalised) > T::ZERO {
        g
    } else {
        T::ZERO
    }
}

/// Gradient of an input.
#[inline(always)]
fn gradient<const RELU: bool, T: Number>(
    factors: Factors<T>,
    (of_mean, of_scale): Means<T>,
    x: T,
    g: T,
) -> T {
    let n = factors.normalised(x);
    factors.w * factors.scale * (kept::<RELU, T>(factors, n, g) - of_mean - n * of_scale)
}

/// What a backward pass reads.
pub(super) struct Backward<'a, T> {
    pub(super) channels: Channels,
    /// What each channel was normalised by.
    pub(super) factors: &'a [Factors<T>],
    pub(super) x: &'a [T],
    /// Gradient of the output.
    pub(super) g: &'a [T],
    pub(super) relu: bool,
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
        let (mut of_bias, mut of_weight) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        for sample in 0..self.channels.batch {
            self.channels.prefetch_after(self.x, sample, channel);
            self.channels.prefetch_after(self.g, sample, channel);
            let range = self.channels.range(sample, channel);
            let (x, g) = (&self.x[range.clone()], &self.g[range]);
            let (bias, weight) = sums_of(x, g, self.factors[channel], self.relu);
            of_bias[sample % LANES] += bias;
            of_weight[sample % LANES] += weight;
        }
        (total(of_bias), total(of_weight))
    }

    /// Writes the input's gradient for the next channel of a part, which is `channel`.
    fn write(&self, channel: usize, means: Means<T>, part: &mut InterleavedRows<'_, T>) {
        part.write_next(|sample, gradients| {
            let range = self.channels.range(sample, channel);
            let (x, g) = (&self.x[range.clone()], &self.g[range]);
            input_gradient(x, g, self.factors[channel], self.relu, means, gradients)
        });
    }

    /// The gradients in one parallel region, where statistics are of this input or constants.
    pub(super) fn at_once(&self, of_batch: bool) -> InputGradients<T> {
        let channels = &self.channels;
        let count = channels.each::<T>();
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

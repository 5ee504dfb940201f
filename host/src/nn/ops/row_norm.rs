//! Layer and RMS normalisation in one pass each; candle's cut the gradient for contiguous inputs.

use candle_core::{
    CpuStorage, CustomOp2, CustomOp3, D, Layout, Result, Shape, Tensor, WithDType, bail,
};

use super::{Number, for_floats, number, numbers, ready, sum};

/// (x − mean) / √(variance + ε) · weight + bias over the last dimension (Ba et al., 2016). Weight
/// and bias have that dimension's length.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f64) -> Result<Tensor> {
    let op = RowNorm {
        epsilon,
        centred: true,
    };
    ready(x)?.apply_op3(&ready(weight)?, &ready(bias)?, op)
}

/// x / √(mean of x² + ε) · weight over the last dimension (Zhang and Sennrich, 2019).
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let op = RowNorm {
        epsilon,
        centred: false,
    };
    // Its bias is nothing, and has no gradient.
    let bias = weight.zeros_like()?;
    ready(x)?.apply_op3(&ready(weight)?, &bias, op)
}

#[derive(Clone, Copy)]
struct RowNorm {
    epsilon: f64,
    centred: bool,
}

/// Of the input, by input, weight and the gradient of the output.
struct RowNormInput(RowNorm);

/// Of weight and bias together, (2, width), by input and the gradient of the output.
struct RowNormScale(RowNorm);

impl RowNorm {
    /// A row's mean, or 0 where rows aren't centred, and 1 / √(variance + ε).
    fn of_row<T: Number>(self, x: &[T]) -> (T, T) {
        let count = number::<T>(x.len() as f64);
        let mean = if self.centred {
            sum(x.iter().copied()) / count
        } else {
            T::ZERO
        };
        let squares = sum(x.iter().map(|&x| (x - mean) * (x - mean)));
        (
            mean,
            (squares / count + number(self.epsilon)).sqrt().recip(),
        )
    }
}

impl CustomOp3 for RowNorm {
    fn name(&self) -> &'static str {
        if self.centred {
            "layer-norm"
        } else {
            "rms-norm"
        }
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = row_width(x_layout, weight_layout)?;
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let bias = numbers::<T>(bias, bias_layout)?;
            let mut y = Vec::with_capacity(x.len());
            for x in x.chunks(width) {
                let (mean, scale) = self.of_row(x);
                let terms = x.iter().zip(weight).zip(bias);
                y.extend(terms.map(|((&x, &w), &b)| (x - mean) * scale * w + b));
            }
            Ok((T::to_cpu_storage_owned(y), x_layout.shape().clone()))
        })
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let of_input = x.apply_op3_no_bwd(weight, &gradient, &RowNormInput(*self))?;
        let of_scale = x.apply_op2_no_bwd(&gradient, &RowNormScale(*self))?;
        let of_bias = if self.centred {
            Some(of_scale.get(1)?)
        } else {
            None
        };
        Ok((Some(of_input), Some(of_scale.get(0)?), of_bias))
    }
}

impl CustomOp3 for RowNormInput {
    fn name(&self) -> &'static str {
        "row-norm-input-gradient"
    }

    /// With n = (x − mean) · s and h = g · w: s · (h − mean of h − n · mean of h · n); without
    /// centring the mean of h is left out.
    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = row_width(x_layout, weight_layout)?;
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let count = number::<T>(width as f64);
            let mut slopes = Vec::with_capacity(x.len());
            for (x, g) in x.chunks(width).zip(gradient.chunks(width)) {
                let (mean, scale) = self.0.of_row(x);
                let along = || x.iter().zip(g).zip(weight);
                let of_mean = if self.0.centred {
                    sum(along().map(|((_, &g), &w)| g * w)) / count
                } else {
                    T::ZERO
                };
                let of_scale =
                    sum(along().map(|((&x, &g), &w)| g * w * (x - mean) * scale)) / count;
                slopes.extend(along().map(|((&x, &g), &w)| {
                    scale * (g * w - of_mean - (x - mean) * scale * of_scale)
                }));
            }
            Ok((T::to_cpu_storage_owned(slopes), x_layout.shape().clone()))
        })
    }
}

impl CustomOp2 for RowNormScale {
    fn name(&self) -> &'static str {
        "row-norm-scale-gradient"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = x_layout.dim(D::Minus1)?.max(1);
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let mut slopes = vec![T::ZERO; 2 * width];
            let (of_weight, of_bias) = slopes.split_at_mut(width);
            for (x, g) in x.chunks(width).zip(gradient.chunks(width)) {
                let (mean, scale) = self.0.of_row(x);
                let places = of_weight.iter_mut().zip(of_bias.iter_mut());
                for ((weight, bias), (&x, &g)) in places.zip(x.iter().zip(g)) {
                    *weight += g * (x - mean) * scale;
                    *bias += g;
                }
            }
            Ok((T::to_cpu_storage_owned(slopes), (2, width).into()))
        })
    }
}

fn row_width(x: &Layout, weight: &Layout) -> Result<usize> {
    let width = x.dim(D::Minus1)?;
    if weight.dims() != [width] || width == 0 {
        bail!(
            "a norm of weight {:?} was given {:?}",
            weight.dims(),
            x.dims()
        )
    }
    Ok(width)
}

//! GELU with the error function; candle's has a gradient of six digits.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use candle_core::cpu::erf::{erf_f32, erf_f64};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, WithDType};

use super::{Number, for_floats, number, numbers, ready};

/// x · Φ(x) for every element (Hendrycks and Gimpel, 2016), PyTorch's default GELU.
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    ready(x)?.apply_op1(Gelu)
}

struct Gelu;

/// The gradient: of the input, by the input and the gradient of the output.
struct GeluGradient;

/// Φ(x), the standard normal distribution.
fn distribution<T: Number>(x: T) -> T {
    let scaled = WithDType::to_f64(x) * FRAC_1_SQRT_2;
    // `f32` needs no more digits than this.
    let erf = if T::DTYPE == candle_core::DType::F64 {
        erf_f64(scaled)
    } else {
        f64::from(erf_f32(scaled as f32))
    };
    number(0.5 + 0.5 * erf)
}

/// φ(x), its density.
fn density<T: Number>(x: T) -> T {
    let factor = number::<T>(1.0 / (2.0 * PI).sqrt());
    factor * (-x * x * number(0.5)).exp()
}

impl CustomOp1 for Gelu {
    fn name(&self) -> &'static str {
        "gelu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let y = x.iter().map(|&x| x * distribution(x)).collect();
            Ok((T::to_cpu_storage_owned(y), layout.shape().clone()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(x.apply_op2_no_bwd(&ready(gradient)?, &GeluGradient)?))
    }
}

impl CustomOp2 for GeluGradient {
    fn name(&self) -> &'static str {
        "gelu-gradient"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let slopes = x.iter().zip(gradient);
            let slopes = slopes.map(|(&x, &g)| g * (distribution(x) + x * density(x)));
            Ok((T::to_cpu_storage_owned(slopes.collect()), x_layout.shape().clone()))
        })
    }
}

//! Functions of each element: the nonlinearities, and the sum of two tensors.

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::tape::{apply1, apply2};
use super::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::kernels::math::number;
use crate::kernels::region::{self, Shared};
use crate::kernels::{Fresh, vectorised};

/// max(x, 0); NaN stays NaN, and the slope at 0 is 0.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Relu)
}

/// x · Φ(x) for every element (Hendrycks and Gimpel, 2016), PyTorch's default GELU. candle's has a
/// gradient of six digits.
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Gelu)
}

/// x · σ(x) for every element.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Silu)
}

/// A nonlinearity of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// See [`relu`].
    Relu,
    /// See [`gelu`].
    Gelu,
    /// See [`silu`].
    Silu,
}

impl Function {
    /// Of every number.
    pub(super) fn of<T: Number>(self, x: &[T], y: &mut [MaybeUninit<T>]) {
        match self {
            Function::Relu => relu_of(x, y),
            Function::Gelu => gelu_of(x, y),
            Function::Silu => silu_of(x, y),
        }
    }

    /// The gradients of `x`, from those of what was made of it. `x` may be the outputs for `ReLU`.
    pub(super) fn slopes<T: Number>(self, x: &[T], g: &[T], slopes: &mut [MaybeUninit<T>]) {
        match self {
            Function::Relu => relu_slopes(x, g, slopes),
            Function::Gelu => gelu_slopes(x, g, slopes),
            Function::Silu => silu_slopes(x, g, slopes),
        }
    }
}

/// Elements that are worth a share of the work of one step of a loop over them.
const EACH: usize = 8;

/// Elements that a thread takes at once.
const PIECE: usize = 16 << 10;

/// Runs a kernel over pieces of `x` (and `more`, of the same length), side by side.
pub(super) fn map<T: Number>(
    x: &[T],
    more: &[T],
    kernel: impl Fn(&[T], &[T], &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let mut y = Fresh::new(x.len());
    let threads = region::parts(x.len() * EACH);
    let places = Shared::new(y.places());
    let pieces = x.len().div_ceil(PIECE);
    region::share_out(
        threads,
        pieces,
        || (),
        |(), piece| {
            let range = piece * PIECE..x.len().min((piece + 1) * PIECE);
            // SAFETY: each piece is done by one thread.
            #[expect(unsafe_code, reason = "each piece has its own elements")]
            let y = unsafe { places.part(range.clone()) };
            kernel(&x[range.clone()], more.get(range).unwrap_or_default(), y);
        },
    );
    // SAFETY: every kernel here writes as many elements as it is given.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        y.written()
    }
}

vectorised! {
    fn relu_of<T: Number>(x: &[T], y: &mut [MaybeUninit<T>]) {
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(if x < T::ZERO { T::ZERO } else { x });
        }
    }
}

vectorised! {
    fn relu_slopes<T: Number>(x: &[T], g: &[T], slopes: &mut [MaybeUninit<T>]) {
        for ((slope, &x), &g) in slopes.iter_mut().zip(x).zip(g) {
            slope.write(if x > T::ZERO { g } else { T::ZERO });
        }
    }
}

/// Φ(x), the standard normal distribution.
#[inline(always)]
fn distribution<T: Number>(x: T) -> T {
    let half = number::<T>(0.5);
    half + half * (x * number(std::f64::consts::FRAC_1_SQRT_2)).fast_erf()
}

vectorised! {
    fn gelu_of<T: Number>(x: &[T], y: &mut [MaybeUninit<T>]) {
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(x * distribution(x));
        }
    }
}

vectorised! {
    fn gelu_slopes<T: Number>(x: &[T], g: &[T], slopes: &mut [MaybeUninit<T>]) {
        // 1 / √(2π), for the density φ(x) of Φ.
        let factor = number::<T>(0.398_942_280_401_432_7);
        for ((slope, &x), &g) in slopes.iter_mut().zip(x).zip(g) {
            let density = factor * (-x * x * number(0.5)).fast_exp();
            slope.write(g * (distribution(x) + x * density));
        }
    }
}

/// σ(x) = 1 / (1 + e⁻ˣ), by exponentials of negative numbers alone.
#[inline(always)]
fn sigmoid<T: Number>(x: T) -> T {
    let small = (-x.abs()).fast_exp();
    let size = T::one() / (T::one() + small);
    if x < T::ZERO { small * size } else { size }
}

vectorised! {
    fn silu_of<T: Number>(x: &[T], y: &mut [MaybeUninit<T>]) {
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(x * sigmoid(x));
        }
    }
}

vectorised! {
    fn silu_slopes<T: Number>(x: &[T], g: &[T], slopes: &mut [MaybeUninit<T>]) {
        for ((slope, &x), &g) in slopes.iter_mut().zip(x).zip(g) {
            let share = sigmoid(x);
            slope.write(g * share * (T::one() + x * (T::one() - share)));
        }
    }
}

impl CustomOp1 for Function {
    fn name(&self) -> &'static str {
        match self {
            Function::Relu => "relu",
            Function::Gelu => "gelu",
            Function::Silu => "silu",
        }
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let y = map(x, &[], |x, _, y| self.of(x, y));
            Ok((stored(y), layout.shape().clone()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gradient = ready(gradient)?;
        let (x_guard, x_layout) = x.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            if g.len() != numbers_of_x.len() {
                bail!("a gradient has another size than what it is the gradient of")
            }
            let slopes = map(numbers_of_x, g, |x, g, slopes| self.slopes(x, g, slopes));
            Ok(Some(new_tensor(slopes, x.shape())?))
        })
    }
}

/// a + b of the same shape. Its gradient is handed on as it is, without a pass over it.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dims() != b.dims() {
        bail!("{:?} and {:?} can't be added", a.dims(), b.dims())
    }
    apply2(&ready(a)?, &ready(b)?, Add)
}

struct Add;

vectorised! {
    fn add_of<T: Number>(a: &[T], b: &[T], y: &mut [MaybeUninit<T>]) {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            y.write(a + b);
        }
    }
}

impl CustomOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(a, T => {
            let (a, b) = (numbers::<T>(a, a_layout)?, numbers::<T>(b, b_layout)?);
            let y = map(a, b, add_of);
            Ok((stored(y), a_layout.shape().clone()))
        })
    }

    fn bwd(
        &self,
        _a: &Tensor,
        _b: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(gradient.clone()), Some(gradient.clone())))
    }
}

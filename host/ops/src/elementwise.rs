//! Element-wise operations: activation functions, and the sum of two tensors.

use std::mem::MaybeUninit;
use std::ops::Range;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::tape::{apply1, apply2};
use crate::kernels::UninitBuffer;
use crate::kernels::region::{self, SharedSlice};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::vectorised;

/// max(x, 0); NaN stays NaN, and the derivative at 0 is 0.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Relu)
}

/// x · Φ(x) for every element (Hendrycks and Gimpel, 2016), PyTorch's default GELU.
///
/// candle's has a gradient that is accurate to six digits only.
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Gelu)
}

/// x · σ(x) for every element.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    apply1(&ready(x)?, Function::Silu)
}

/// An activation function.
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
    /// Applies the function to every element.
    pub(super) fn of<T: Number>(self, x: &[T], y: &mut [MaybeUninit<T>]) {
        match self {
            Function::Relu => relu_of(x, y),
            Function::Gelu => gelu_of(x, y),
            Function::Silu => silu_of(x, y),
        }
    }

    /// Applies the function to every element of `x` and leaves its derivative there in `x`.
    ///
    /// `ReLU` leaves `x` unchanged, as its derivative follows from its outputs.
    pub(super) fn keeping_derivatives<T: Number>(self, x: &mut [T], y: &mut [MaybeUninit<T>]) {
        match self {
            Function::Relu => relu_of(x, y),
            Function::Gelu => gelu_keeping_derivatives(x, y),
            Function::Silu => silu_keeping_derivatives(x, y),
        }
    }

    /// Gradients of `x`, from those of the outputs.
    fn gradients<T: Number>(self, x: &[T], g: &[T], gradients: &mut [MaybeUninit<T>]) {
        match self {
            Function::Relu => relu_gradients(x, g, gradients),
            Function::Gelu => gelu_gradients(x, g, gradients),
            Function::Silu => silu_gradients(x, g, gradients),
        }
    }
}

/// Values kept of a function for the backward pass.
#[derive(Clone, Copy)]
pub(super) enum KeptValues<'a, T> {
    /// Outputs of `ReLU`: above zero where its inputs are.
    Outputs(&'a [T]),
    /// Derivatives; see [`Function::keeping_derivatives`].
    Slopes(&'a [T]),
}

impl<'a, T: Number> KeptValues<'a, T> {
    pub(super) fn numbers(self) -> &'a [T] {
        match self {
            KeptValues::Outputs(numbers) | KeptValues::Slopes(numbers) => numbers,
        }
    }

    /// Gradients of some inputs, from the values kept of them (`part`) and the gradients of their outputs.
    pub(super) fn gradients(self, part: &[T], g: &[T], to: &mut [MaybeUninit<T>]) {
        match self {
            KeptValues::Outputs(_) => relu_gradients(part, g, to),
            KeptValues::Slopes(_) => products(part, g, to),
        }
    }
}

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

/// Number of elements in a chunk.
const CHUNK: usize = 16 << 10;

/// Runs a kernel over chunks of `x` (and `more`, of the same length or empty), in parallel.
pub(super) fn map<T: Number>(
    x: &[T],
    more: &[T],
    kernel: impl Fn(&[T], &[T], &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    by_chunks(x.len(), |range, y| {
        kernel(&x[range.clone()], more.get(range).unwrap_or_default(), y);
    })
}

/// Runs a kernel that leaves something in place of `x`, like [`map`].
pub(super) fn map_leaving<T: Number>(
    x: &mut [T],
    kernel: impl Fn(&mut [T], &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let places = SharedSlice::new(x);
    by_chunks(places.len(), |range, y| {
        // SAFETY: each chunk is processed by one thread, and chunks do not overlap.
        #[expect(unsafe_code, reason = "each piece has its own elements")]
        let x = unsafe { places.part(range) };
        kernel(x, y);
    })
}

/// Makes `count` elements; `fill` must write every element of each chunk that it is given.
fn by_chunks<T: Number>(
    count: usize,
    fill: impl Fn(Range<usize>, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let mut y = UninitBuffer::new(count);
    let threads = region::parts(count * EACH);
    let places = SharedSlice::new(y.places());
    let work = |piece: usize| {
        let range = piece * CHUNK..count.min((piece + 1) * CHUNK);
        // SAFETY: each chunk is processed by one thread, and chunks do not overlap.
        #[expect(unsafe_code, reason = "each piece has its own elements")]
        let y = unsafe { places.part(range.clone()) };
        fill(range, y);
    };
    region::distribute(
        threads,
        count.div_ceil(CHUNK),
        || (),
        |(), piece| work(piece),
    );
    // SAFETY: the chunks cover all elements, and every kernel passed here writes as many elements as it is given.
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
    fn relu_gradients<T: Number>(x: &[T], g: &[T], gradients: &mut [MaybeUninit<T>]) {
        for ((gradient, &x), &g) in gradients.iter_mut().zip(x).zip(g) {
            gradient.write(if x > T::ZERO { g } else { T::ZERO });
        }
    }
}

/// x · Φ(x) and its derivative Φ(x) + x · φ(x).
#[inline(always)]
fn gelu_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    let (distribution, density) = x.normal::<FUSED>();
    (
        x * distribution,
        x.times_plus::<FUSED>(density, distribution),
    )
}

vectorised! {
    fn gelu_of<T: Number>(x: &[T], y: &mut [MaybeUninit<T>]) {
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(gelu_and_derivative::<FUSED, T>(x).0);
        }
    }
}

vectorised! {
    fn gelu_keeping_derivatives<T: Number>(x: &mut [T], y: &mut [MaybeUninit<T>]) {
        for (y, x) in y.iter_mut().zip(x) {
            let (value, slope) = gelu_and_derivative::<FUSED, T>(*x);
            y.write(value);
            *x = slope;
        }
    }
}

vectorised! {
    fn gelu_gradients<T: Number>(x: &[T], g: &[T], gradients: &mut [MaybeUninit<T>]) {
        for ((gradient, &x), &g) in gradients.iter_mut().zip(x).zip(g) {
            gradient.write(gelu_and_derivative::<FUSED, T>(x).1 * g);
        }
    }
}

vectorised! {
    fn products<T: Number>(a: &[T], b: &[T], y: &mut [MaybeUninit<T>]) {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            y.write(a * b);
        }
    }
}

/// x · σ(x) and its derivative σ(x) · (1 + x · (1 − σ(x))), where σ(x) = 1 / (1 + e⁻ˣ).
///
/// Only exponentials of negative numbers are computed.
#[inline(always)]
fn silu_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    let small = (-x.abs()).fast_exp::<FUSED>();
    let size = T::one() / (T::one() + small);
    let share = if x < T::ZERO { small * size } else { size };
    let slope = share * x.times_plus::<FUSED>(T::one() - share, T::one());
    (x * share, slope)
}

vectorised! {
    fn silu_of<T: Number>(x: &[T], y: &mut [MaybeUninit<T>]) {
        for (y, &x) in y.iter_mut().zip(x) {
            y.write(silu_and_derivative::<FUSED, T>(x).0);
        }
    }
}

vectorised! {
    fn silu_keeping_derivatives<T: Number>(x: &mut [T], y: &mut [MaybeUninit<T>]) {
        for (y, x) in y.iter_mut().zip(x) {
            let (value, slope) = silu_and_derivative::<FUSED, T>(*x);
            y.write(value);
            *x = slope;
        }
    }
}

vectorised! {
    fn silu_gradients<T: Number>(x: &[T], g: &[T], gradients: &mut [MaybeUninit<T>]) {
        for ((gradient, &x), &g) in gradients.iter_mut().zip(x).zip(g) {
            gradient.write(silu_and_derivative::<FUSED, T>(x).1 * g);
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
            let gradients = map(numbers_of_x, g, |x, g, gradients| self.gradients(x, g, gradients));
            Ok(Some(new_tensor(gradients, x.shape())?))
        })
    }
}

/// a + b of the same shape. The gradient is handed on as it is, without a pass over it.
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

//! Element-wise operations: activation functions, and the sum of two tensors.

pub(crate) mod add_relu;
pub(crate) mod factors;
pub(crate) mod masked;
pub(crate) mod multiply;

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use crate::autograd::sum::Add;
use crate::autograd::tape::{apply1, apply2};
use crate::kernels::math::{number, sigmoid as sigmoid_of};
use crate::kernels::{map, write_all};
use crate::options::Function;
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// max(x, 0); NaN stays NaN, and the derivative at 0 is 0.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::Relu)
}

/// x · Φ(x) for every element (Hendrycks and Gimpel, 2016), PyTorch's default GELU.
///
/// candle's has a gradient that is accurate to six digits only.
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::Gelu)
}

/// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) for every element: the approximation of [`gelu`] that GPT-2 uses.
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::GeluTanh)
}

/// x · σ(1.702 · x) for every element: the approximation of [`gelu`] that CLIP uses.
pub fn quick_gelu(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::QuickGelu)
}

/// x · σ(x) for every element.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::Silu)
}

/// tanh(x) for every element.
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::Tanh)
}

/// σ(x) = 1 / (1 + e⁻ˣ) for every element.
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    activated(x, Function::Sigmoid)
}

/// A function of every element.
pub fn activated(x: &Tensor, function: Function) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::apply(x, function);
    }
    apply1(&ready(x)?, function)
}

impl Function {
    /// Applies the function to every element.
    fn of<'a, T: Number>(self, x: &[T], y: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
        match self {
            Function::Relu => relu_of(x, y),
            Function::Gelu => gelu_of(x, y),
            Function::GeluTanh => gelu_tanh_of(x, y),
            Function::QuickGelu => quick_gelu_of(x, y),
            Function::Silu => silu_of(x, y),
            Function::Tanh => tanh_of(x, y),
            Function::Sigmoid => sigmoids_of(x, y),
        }
    }

    /// Applies the function to every element of `x` and leaves its derivative there in `x`.
    ///
    /// `ReLU` leaves `x` unchanged, as its derivative follows from its outputs.
    pub(crate) fn keeping_derivatives<'a, T: Number>(
        self,
        x: &mut [T],
        y: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        match self {
            Function::Relu => relu_of(x, y),
            Function::Gelu => gelu_keeping_derivatives(x, y),
            Function::GeluTanh => gelu_tanh_keeping_derivatives(x, y),
            Function::QuickGelu => quick_gelu_keeping_derivatives(x, y),
            Function::Silu => silu_keeping_derivatives(x, y),
            Function::Tanh => tanh_keeping_derivatives(x, y),
            Function::Sigmoid => sigmoids_keeping_derivatives(x, y),
        }
    }

    /// Gradients of `x`, from those of the outputs.
    fn gradients<'a, T: Number>(
        self,
        x: &[T],
        g: &[T],
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        match self {
            Function::Relu => relu_gradients(x, g, gradients),
            Function::Gelu => gelu_gradients(x, g, gradients),
            Function::GeluTanh => gelu_tanh_gradients(x, g, gradients),
            Function::QuickGelu => quick_gelu_gradients(x, g, gradients),
            Function::Silu => silu_gradients(x, g, gradients),
            Function::Tanh => tanh_gradients(x, g, gradients),
            Function::Sigmoid => sigmoid_gradients(x, g, gradients),
        }
    }
}

/// Values kept of a function for the backward pass.
#[derive(Clone, Copy)]
pub(crate) enum KeptValues<'a, T> {
    /// Outputs of `ReLU`: above zero where its inputs are.
    Outputs(&'a [T]),
    /// Derivatives; see [`Function::keeping_derivatives`].
    Derivatives(&'a [T]),
}

impl<'a, T: Number> KeptValues<'a, T> {
    pub(crate) fn numbers(self) -> &'a [T] {
        match self {
            KeptValues::Outputs(numbers) | KeptValues::Derivatives(numbers) => numbers,
        }
    }

    /// Gradients of some inputs, from the values kept of them (`part`) and the gradients of their outputs.
    pub(crate) fn gradients<'b>(
        self,
        part: &[T],
        g: &[T],
        to: &'b mut [MaybeUninit<T>],
    ) -> &'b mut [T] {
        match self {
            KeptValues::Outputs(_) => relu_gradients(part, g, to),
            KeptValues::Derivatives(_) => products(part, g, to),
        }
    }
}

vectorised! {
    fn relu_of<'a, T: Number>(x: &[T], y: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
        write_all(y, x.iter().map(|&x| if x < T::ZERO { T::ZERO } else { x }))
    }
}

vectorised! {
    pub(crate) fn relu_gradients<'a, T: Number>(
        x: &[T],
        g: &[T],
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let both = x.iter().zip(g);
        write_all(gradients, both.map(|(&x, &g)| if x > T::ZERO { g } else { T::ZERO }))
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
    pub(crate) fn products<'a, T: Number>(a: &[T], b: &[T], y: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
        write_all(y, a.iter().zip(b).map(|(&a, &b)| a * b))
    }
}

/// x · σ(v) and its derivative σ(v) · (1 + x · v′ · (1 − σ(v))) for a function v of x, whose derivative is v′.
#[inline(always)]
fn gated_and_derivative<const FUSED: bool, T: Number>(x: T, v: T, of_v: T) -> (T, T) {
    let sigmoid = sigmoid_of::<FUSED, T>(v);
    let derivative = sigmoid * (x * of_v).times_plus::<FUSED>(T::one() - sigmoid, T::one());
    (x * sigmoid, derivative)
}

#[inline(always)]
fn silu_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    gated_and_derivative::<FUSED, T>(x, x, T::one())
}

#[inline(always)]
fn quick_gelu_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    let factor = number::<T>(1.702);
    gated_and_derivative::<FUSED, T>(x, factor * x, factor)
}

/// (1 + tanh(u)) / 2 is σ(2 · u).
#[inline(always)]
fn gelu_tanh_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    // 2 · √(2/π), and its multiple by which the cube counts.
    let linear = number::<T>(1.595_769_121_605_730_7);
    let cubic = number::<T>(1.595_769_121_605_730_7 * 0.044_715);
    let square = x * x;
    let v = x * square.times_plus::<FUSED>(cubic, linear);
    let of_v = square.times_plus::<FUSED>(number::<T>(3.0) * cubic, linear);
    gated_and_derivative::<FUSED, T>(x, v, of_v)
}

#[inline(always)]
fn tanh_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    let y = x.fast_tanh::<FUSED>();
    (y, (-y).times_plus::<FUSED>(y, T::one()))
}

#[inline(always)]
fn sigmoid_and_derivative<const FUSED: bool, T: Number>(x: T) -> (T, T) {
    let y = sigmoid_of::<FUSED, T>(x);
    (y, (-y).times_plus::<FUSED>(y, y))
}

/// The loops of a function, of which both value and derivative are computed at once.
macro_rules! loops {
    ($both:ident: $of:ident, $keeping_derivatives:ident, $gradients:ident) => {
        vectorised! {
            fn $of<'a, T: Number>(x: &[T], y: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
                write_all(y, x.iter().map(|&x| $both::<FUSED, T>(x).0))
            }
        }

        vectorised! {
            fn $keeping_derivatives<'a, T: Number>(
                x: &mut [T],
                y: &'a mut [MaybeUninit<T>],
            ) -> &'a mut [T] {
                let values = x.iter_mut().map(|x| {
                    let (value, derivative) = $both::<FUSED, T>(*x);
                    *x = derivative;
                    value
                });
                write_all(y, values)
            }
        }

        vectorised! {
            fn $gradients<'a, T: Number>(
                x: &[T],
                g: &[T],
                gradients: &'a mut [MaybeUninit<T>],
            ) -> &'a mut [T] {
                let both = x.iter().zip(g);
                write_all(gradients, both.map(|(&x, &g)| $both::<FUSED, T>(x).1 * g))
            }
        }
    };
}

loops!(gelu_and_derivative: gelu_of, gelu_keeping_derivatives, gelu_gradients);
loops!(gelu_tanh_and_derivative: gelu_tanh_of, gelu_tanh_keeping_derivatives, gelu_tanh_gradients);
loops!(quick_gelu_and_derivative: quick_gelu_of, quick_gelu_keeping_derivatives, quick_gelu_gradients);
loops!(silu_and_derivative: silu_of, silu_keeping_derivatives, silu_gradients);
loops!(tanh_and_derivative: tanh_of, tanh_keeping_derivatives, tanh_gradients);
loops!(sigmoid_and_derivative: sigmoids_of, sigmoids_keeping_derivatives, sigmoid_gradients);

impl CustomOp1 for Function {
    fn name(&self) -> &'static str {
        match self {
            Function::Relu => "relu",
            Function::Gelu => "gelu",
            Function::GeluTanh => "gelu-tanh",
            Function::QuickGelu => "quick-gelu",
            Function::Silu => "silu",
            Function::Tanh => "tanh",
            Function::Sigmoid => "sigmoid",
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
    if composed::is_chosen(a) {
        return composed::add(a, b);
    }
    apply2(&ready(a)?, &ready(b)?, Add)
}

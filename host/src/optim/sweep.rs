//! One pass over a parameter, its gradient and its moments, in place.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Sub};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};

use super::moments::Moment;

/// A number that parameters are made of.
pub(super) trait Float:
    Copy
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// From a hyper-parameter.
    fn from_f64(value: f64) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The moments in this type.
    fn of(moment: &mut Moment) -> &mut Vec<Self>;
}

impl Float for f32 {
    const ZERO: f32 = 0.0;

    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    fn of(moment: &mut Moment) -> &mut Vec<f32> {
        &mut moment.f32
    }
}

impl Float for f64 {
    const ZERO: f64 = 0.0;

    fn from_f64(value: f64) -> f64 {
        value
    }

    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    fn of(moment: &mut Moment) -> &mut Vec<f64> {
        &mut moment.f64
    }
}

/// What happens to a contiguous parameter, given its gradient, element by element.
pub(super) trait Sweep {
    /// Parameters in single precision.
    fn f32(&mut self, parameter: &mut [f32], gradient: &[f32]);
    /// Parameters in double precision.
    fn f64(&mut self, parameter: &mut [f64], gradient: &[f64]);
}

/// Runs a sweep over a parameter's own storage.
pub(super) fn sweep(parameter: &Tensor, gradient: &Tensor, sweep: &mut dyn Sweep) -> Result<()> {
    if parameter.dims() != gradient.dims() {
        bail!(
            "the gradient's shape {:?} is not the parameter's {:?}",
            gradient.dims(),
            parameter.dims()
        );
    }
    let mut gradient = gradient.to_dtype(parameter.dtype())?.contiguous()?;
    if share_storage(parameter, &gradient) {
        gradient = gradient.copy()?;
    }
    let sweep = RefCell::new(sweep);
    parameter.inplace_op1(&InPlace { gradient, sweep })
}

/// Whether a gradient lies in its parameter's own storage, as that of ½‖p‖² may: the parameter is
/// locked while it is stepped, so reading it then would wait for ever.
fn share_storage(parameter: &Tensor, gradient: &Tensor) -> bool {
    let address = |tensor: &Tensor| std::ptr::from_ref(&*tensor.storage_and_layout().0).addr();
    address(parameter) == address(gradient)
}

struct InPlace<'a> {
    gradient: Tensor,
    sweep: RefCell<&'a mut dyn Sweep>,
}

impl InplaceOp1 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "optimizer-step"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (guard, gradient_layout) = self.gradient.storage_and_layout();
        let Storage::Cpu(gradient) = &*guard else {
            bail!("the gradient is not on the CPU");
        };
        match (storage, gradient) {
            (CpuStorage::F32(parameter), CpuStorage::F32(gradient)) => {
                let gradient = slice(gradient, gradient_layout)?;
                self.sweep
                    .borrow_mut()
                    .f32(slice_mut(parameter, layout)?, gradient);
            }
            (CpuStorage::F64(parameter), CpuStorage::F64(gradient)) => {
                let gradient = slice(gradient, gradient_layout)?;
                self.sweep
                    .borrow_mut()
                    .f64(slice_mut(parameter, layout)?, gradient);
            }
            (storage, _) => bail!("parameters of type {} can't be stepped", name(storage)),
        }
        Ok(())
    }
}

fn name(storage: &CpuStorage) -> &'static str {
    use candle_core::backend::BackendStorage;
    storage.dtype().as_str()
}

fn slice<'a, T>(values: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| values.get(start..end)) {
        Some(values) => Ok(values),
        None => bail!("the gradient is not contiguous"),
    }
}

fn slice_mut<'a, T>(values: &'a mut [T], layout: &Layout) -> Result<&'a mut [T]> {
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| values.get_mut(start..end)) {
        Some(values) => Ok(values),
        None => bail!("the parameter is not contiguous"),
    }
}

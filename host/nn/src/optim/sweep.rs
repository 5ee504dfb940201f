//! One pass over a parameter, its gradient and its moments, in place.
//!
//! On the CPU it is a loop over their elements, and on a GPU a kernel of all parameters. Where there is none for their type, copies on
//! the host are stepped.

use std::cell::Cell;

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Result, Storage, Tensor, bail};
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers;
use sconce_ops::kernels::fill::{Rows, Schedule, fill_parts};
use sconce_ops::kernels::region;
use sconce_ops::vectorised;

use super::elements::{Float, SliceMut, Sweep, SweepSlices};
use super::narrow::{self, NarrowSlices};

/// Runs a sweep over the storage of a parameter and its moments, which are of its type, or `bf16` and then rounded by the words of
/// the key `rounding`.
pub(super) fn sweep(
    parameter: &Tensor,
    gradient: &Tensor,
    moments: &[Option<Tensor>; 3],
    sweep: &impl Sweep,
    rounding: Option<u64>,
) -> Result<()> {
    if parameter.dims() != gradient.dims() {
        bail!(
            "the gradient's shape {:?} is not the parameter's {:?}",
            gradient.dims(),
            parameter.dims()
        );
    }
    let mut gradient = gradient.to_dtype(parameter.dtype())?.contiguous()?;
    if have_same_storage(parameter, &gradient) {
        gradient = gradient.copy()?;
    }
    #[cfg(feature = "cuda")]
    if optimizers::takes(parameter) {
        let (rule, terms) = sweep.kernel();
        return optimizers::step(optimizers::Step {
            rule,
            terms,
            parameter: parameter.detach(),
            gradient: gradient.detach(),
            moments: moments.clone(),
        });
    }
    if !parameter.device().is_cpu() {
        return sweep_copies(parameter, &gradient, moments, sweep, rounding);
    }
    let [first, second, third] = moments;
    let (guard, layout) = gradient.storage_and_layout();
    let Storage::Cpu(gradient) = &*guard else {
        bail!("the gradient is not on the CPU");
    };
    with_storage(first.as_ref(), |first| {
        with_storage(second.as_ref(), |second| {
            with_storage(third.as_ref(), |third| {
                with_storage(Some(parameter), |parameter| match (parameter, gradient) {
                    (SliceMut::F32(parameter), CpuStorage::F32(gradient)) => {
                        let gradient = slice(gradient, layout)?;
                        step(sweep, parameter, gradient, [first, second, third], rounding);
                        Ok(())
                    }
                    (SliceMut::F64(parameter), CpuStorage::F64(gradient)) => {
                        let gradient = slice(gradient, layout)?;
                        step(sweep, parameter, gradient, [first, second, third], rounding);
                        Ok(())
                    }
                    (_, gradient) => {
                        bail!("parameters of type {} can't be stepped", name(gradient))
                    }
                })
            })
        })
    })
}

/// Steps the elements of a parameter, whose moments are stored as they are or rounded.
fn step<T: Float>(
    sweep: &impl Sweep,
    parameter: &mut [T],
    gradient: &[T],
    moments: [SliceMut<'_>; 3],
    rounding: Option<u64>,
) {
    let Some(key) = rounding else {
        return distribute(sweep, parameter, gradient, moments.map(T::of));
    };
    let [first, second, _] = moments.map(SliceMut::bf16);
    let numbers = NarrowSlices {
        parameter,
        gradient,
        moments: [first, second],
    };
    narrow::distribute(sweep, numbers, key);
}

/// Runs a sweep over copies on the host, where the device has no kernel for it, and copies their values back.
fn sweep_copies(
    parameter: &Tensor,
    gradient: &Tensor,
    moments: &[Option<Tensor>; 3],
    step: &impl Sweep,
    rounding: Option<u64>,
) -> Result<()> {
    let copy = |tensor: &Tensor| tensor.detach().to_device(&Device::Cpu);
    let (new, gradient) = (copy(parameter)?, copy(gradient)?);
    let mut copies = [None, None, None];
    for (place, moment) in copies.iter_mut().zip(moments) {
        *place = moment.as_ref().map(copy).transpose()?;
    }
    sweep(&new, &gradient, &copies, step, rounding)?;
    for (moment, new) in moments.iter().flatten().zip(copies.iter().flatten()) {
        overwrite(moment, new)?;
    }
    overwrite(parameter, &new)
}

/// Copies new values into a tensor's memory.
fn overwrite(tensor: &Tensor, new: &Tensor) -> Result<()> {
    if tensor.elem_count() == 0 {
        return Ok(());
    }
    // A contiguous tensor's reshape shares its memory.
    let flat = tensor.detach().flatten_all()?;
    let new = new.to_device(tensor.device())?;
    flat.slice_set(&new.flatten_all()?, 0, 0)
}

vectorised! {
    fn run_all<S: Sweep, T: Float>(
        sweep: &S,
        parameter: &mut [T],
        gradient: &[T],
        first: &mut [T],
        second: &mut [T],
        third: &mut [T],
    ) {
        sweep.run(SweepSlices {
            parameter,
            gradient,
            moments: [first, second, third],
        });
    }
}

/// Runs a sweep over ranges of the elements in parallel.
fn distribute<T: Float>(
    sweep: &impl Sweep,
    parameter: &mut [T],
    gradient: &[T],
    moments: [&mut [T]; 3],
) {
    let count = parameter.len().min(gradient.len());
    let threads = region::parts(count * 16);
    let [first, second, third] = moments.map(|moment| Rows::if_any(moment, 1));
    let memory = (Rows::new(parameter, 1), first, second, third);
    let schedule = Schedule::stealing(threads, count, 64);
    fill_parts(
        schedule,
        memory,
        |range, (parameter, first, second, third)| {
            run_all(
                sweep,
                parameter,
                &gradient[range.clone()],
                first,
                second,
                third,
            );
            ((), (), (), ())
        },
    );
}

/// Whether a gradient shares its parameter's storage, as that of ½‖p‖² may: the parameter is locked
/// during its step, so that reading the gradient would deadlock.
fn have_same_storage(parameter: &Tensor, gradient: &Tensor) -> bool {
    let address = |tensor: &Tensor| std::ptr::from_ref(&*tensor.storage_and_layout().0).addr();
    address(parameter) == address(gradient)
}

/// Calls `work` with a tensor's elements in its own storage.
fn with_storage<W>(tensor: Option<&Tensor>, work: W) -> Result<()>
where
    W: FnOnce(SliceMut<'_>) -> Result<()>,
{
    match tensor {
        Some(tensor) => tensor.inplace_op1(&InPlace {
            work: Cell::new(Some(work)),
        }),
        None => work(SliceMut::Nothing),
    }
}

struct InPlace<W> {
    /// Taken by the only call.
    work: Cell<Option<W>>,
}

impl<W: FnOnce(SliceMut<'_>) -> Result<()>> InplaceOp1 for InPlace<W> {
    fn name(&self) -> &'static str {
        "optimizer-step"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let values = match storage {
            CpuStorage::BF16(values) => SliceMut::Bf16(slice_mut(values, layout)?),
            CpuStorage::F32(values) => SliceMut::F32(slice_mut(values, layout)?),
            CpuStorage::F64(values) => SliceMut::F64(slice_mut(values, layout)?),
            other => bail!("parameters of type {} can't be stepped", name(other)),
        };
        self.work.take().map_or(Ok(()), |work| work(values))
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

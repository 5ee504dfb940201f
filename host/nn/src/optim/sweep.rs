//! One pass over a parameter, its gradient and its moments, in place.
//!
//! On the CPU it is a loop over their elements; on other devices it is composed of operations on tensors, from which new
//! values are copied into the old ones' memory.

use std::cell::Cell;
use std::ops::{Add, Div, Mul, Sub};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use sconce_ops::are_composed;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers;
use sconce_ops::kernels::fill::{Rows, Schedule, fill_parts};
use sconce_ops::kernels::region;
use sconce_ops::vectorised;

/// A floating-point type of parameters.
pub(super) trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Zero.
    const ZERO: Self;
    /// Converts a hyper-parameter.
    fn from_f64(value: f64) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// Returns 1 for positive and −1 for negative values, and 0 or NaN unchanged.
    fn sign(self) -> Self;
}

impl Float for f32 {
    const ZERO: f32 = 0.0;

    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    fn sign(self) -> f32 {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self
        }
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

    fn sign(self) -> f64 {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self
        }
    }
}

/// Elements of a parameter, its gradient and its moments, at the same indices; slices of moments that
/// the optimizer does not have are empty.
pub(super) struct SweepSlices<'a, T> {
    pub(super) parameter: &'a mut [T],
    pub(super) gradient: &'a [T],
    pub(super) moments: [&'a mut [T]; 3],
}

/// An elementwise update of a parameter from its gradient. Elements are independent of each other, so
/// that threads can work on separate ranges.
pub(super) trait Sweep: Sync {
    /// Updates the elements, in the parameter's own type.
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>);

    /// The kernel of the same formulas on a GPU, and its terms.
    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (optimizers::Rule, [f64; 8]);

    /// Computes the same formulas on any device: returns the new values.
    fn compose(&self, old: &SweepTensors) -> Result<Updated>;
}

/// A parameter, its gradient in the same type, and its moments, detached.
pub(super) struct SweepTensors {
    pub(super) parameter: Tensor,
    pub(super) gradient: Tensor,
    moments: [Option<Tensor>; 3],
}

impl SweepTensors {
    /// Returns the moment at `index`, which the optimizer has.
    pub(super) fn moment(&self, index: usize) -> Result<&Tensor> {
        match self.moments.get(index) {
            Some(Some(moment)) => Ok(moment),
            _ => bail!("the optimizer has no moment {index}"),
        }
    }
}

/// New values of a parameter and of its moments; none where there is no moment.
pub(super) struct Updated {
    pub(super) parameter: Tensor,
    pub(super) moments: [Option<Tensor>; 3],
}

/// Runs a sweep over the storage of a parameter and its moments.
pub(super) fn sweep(
    parameter: &Tensor,
    gradient: &Tensor,
    moments: &[Option<Tensor>; 3],
    sweep: &impl Sweep,
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
    if are_composed(parameter) {
        return compose(parameter, &gradient, moments, sweep);
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
                        let moments = [first.f32(), second.f32(), third.f32()];
                        distribute(sweep, parameter, gradient, moments);
                        Ok(())
                    }
                    (SliceMut::F64(parameter), CpuStorage::F64(gradient)) => {
                        let gradient = slice(gradient, layout)?;
                        let moments = [first.f64(), second.f64(), third.f64()];
                        distribute(sweep, parameter, gradient, moments);
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

/// Computes a sweep by operations on tensors, on the parameter's device.
fn compose(
    parameter: &Tensor,
    gradient: &Tensor,
    moments: &[Option<Tensor>; 3],
    sweep: &impl Sweep,
) -> Result<()> {
    let detached = |moment: &Option<Tensor>| moment.as_ref().map(Tensor::detach);
    let updated = sweep.compose(&SweepTensors {
        parameter: parameter.detach(),
        gradient: gradient.detach(),
        moments: moments.each_ref().map(detached),
    })?;
    for (moment, new) in moments.iter().zip(&updated.moments) {
        if let (Some(moment), Some(new)) = (moment, new) {
            overwrite(moment, new)?;
        }
    }
    overwrite(parameter, &updated.parameter)
}

/// Copies new values into a tensor's memory.
fn overwrite(tensor: &Tensor, new: &Tensor) -> Result<()> {
    if tensor.elem_count() == 0 {
        return Ok(());
    }
    // A contiguous tensor's reshape shares its memory.
    let flat = tensor.detach().flatten_all()?;
    flat.slice_set(&new.flatten_all()?.contiguous()?, 0, 0)
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

/// Elements of a contiguous tensor, or of no tensor.
enum SliceMut<'a> {
    Nothing,
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
}

impl<'a> SliceMut<'a> {
    fn f32(self) -> &'a mut [f32] {
        match self {
            SliceMut::F32(values) => values,
            _ => &mut [],
        }
    }

    fn f64(self) -> &'a mut [f64] {
        match self {
            SliceMut::F64(values) => values,
            _ => &mut [],
        }
    }
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

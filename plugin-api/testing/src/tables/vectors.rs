//! Passes over collections, as plain loops.

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Change, Combination, LentVectors, Reduction, Refusal, TensorAbi, Vectors, VectorsAbi,
};
use sconce_plugin_api::tensor::{DType, Element, Tensor, TensorMut};
use sconce_plugin_api::{HookError, Result};

use super::super::stage::FakeRun;

impl Vectors for FakeRun {
    unsafe fn reduce(
        &self,
        reduction: u32,
        number: f64,
        vectors: &VectorsAbi,
        results: &mut [f64],
    ) -> Result<usize, Refusal> {
        // SAFETY: guaranteed by the caller.
        let lent = unsafe { LentVectors::lend(self, vectors, false) }?;
        let reduction = Reduction::from_numbers(reduction, number)
            .ok_or_else(|| unsupported("the kit has no such reduction"))?;
        let needed = lent.slice_count();
        if needed > results.len() {
            return Ok(needed);
        }
        let mut results = results.iter_mut();
        for tensor in &lent.tensors {
            let (count, inner) = lent.slices(tensor);
            // SAFETY: the tensor is lent for this call.
            let values = unsafe { Tensor::borrowed(*tensor) }.and_then(|tensor| tensor.values());
            let values: Vec<f64> = values
                .map_err(|error| unsupported(error.message()))?
                .collect();
            let mut found = vec![0.0; count];
            for (run, numbers) in values.chunks(inner.max(1)).enumerate() {
                let found = &mut found[run % count];
                *found = numbers
                    .iter()
                    .fold(*found, |so_far, &x| with(reduction, so_far, x));
            }
            for (place, found) in results.by_ref().zip(found) {
                *place = found;
            }
        }
        Ok(needed)
    }

    unsafe fn change(
        &self,
        change: u32,
        vectors: &VectorsAbi,
        numbers: &[f64],
    ) -> Result<(), Refusal> {
        let change = Change::from_numbers(change, numbers)
            .ok_or_else(|| unsupported("the kit has no such change"))?;
        // SAFETY: guaranteed by the caller.
        let lent = unsafe { LentVectors::lend(self, vectors, true) }?;
        lent.check_apart(&[])?;
        if matches!(change, Change::ScaleSlices(factors) if factors.len() != lent.slice_count()) {
            return Err(Refusal::invalid("there must be one factor for each slice"));
        }
        let mut first = 0;
        for tensor in &lent.tensors {
            let (slices, inner) = lent.slices(tensor);
            let with = |place: usize, x: f64| match change {
                Change::Scale(factor) => x * factor,
                Change::ScaleSlices(factors) => x * factors[first + place / inner.max(1) % slices],
                Change::Clamp(lower, upper) if !x.is_nan() => x.max(lower).min(upper),
                Change::Clamp(..) => x,
                Change::Fill(number) => number,
                // Of a newer API than this kit's.
                _ => f64::NAN,
            };
            // SAFETY: the tensor is lent for writing, for this call, and shares no elements with another.
            let changed = unsafe { TensorMut::borrowed(*tensor) }.and_then(|mut tensor| {
                if tensor.view().dtype() == Some(DType::F64) {
                    let numbers = tensor.as_mut_slice::<f64>()?.iter_mut().enumerate();
                    numbers.for_each(|(place, x)| *x = with(place, *x));
                } else {
                    let numbers = tensor.as_mut_slice::<f32>()?.iter_mut().enumerate();
                    numbers.for_each(|(place, x)| *x = with(place, f64::from(*x)) as f32);
                }
                Ok(())
            });
            changed.map_err(|error| unsupported(error.message()))?;
            first += slices;
        }
        Ok(())
    }

    unsafe fn combine(
        &self,
        combination: u32,
        weight: f64,
        onto: &VectorsAbi,
        from: &VectorsAbi,
    ) -> Result<(), Refusal> {
        let combination = Combination::from_numbers(combination, weight)
            .ok_or_else(|| unsupported("the kit has no such combination"))?;
        // SAFETY: guaranteed by the caller.
        let (from, onto) = unsafe {
            let from = LentVectors::lend(self, from, false)?;
            (from, LentVectors::lend(self, onto, true)?)
        };
        onto.check_apart(&from.tensors)?;
        let shapes = |lent: &LentVectors| -> Vec<Vec<i64>> {
            let shapes = lent.tensors.iter().map(LentVectors::shape);
            shapes.map(<[i64]>::to_vec).collect()
        };
        if shapes(&onto) != shapes(&from) {
            let message = "the tensors to be combined have different shapes";
            return Err(Refusal::invalid(message));
        }
        for (onto, from) in onto.tensors.iter().zip(&from.tensors) {
            // SAFETY: both are lent for this call, the first for writing, and share no elements.
            let combined = unsafe { combine_both(*onto, *from, combination) };
            combined.map_err(|error| unsupported(error.message()))?;
        }
        Ok(())
    }
}

fn unsupported(message: &str) -> Refusal {
    Refusal::new(Status::UNSUPPORTED, message)
}

/// Counts an element.
fn with(reduction: Reduction, so_far: f64, x: f64) -> f64 {
    let one_if = |condition: bool| f64::from(u8::from(condition));
    match reduction {
        Reduction::Powers(order) if (order - 2.0).abs() < f64::EPSILON => so_far + x * x,
        Reduction::Powers(order) => so_far + x.abs().powf(order),
        Reduction::Largest if x.is_nan() || so_far.is_nan() => f64::NAN,
        Reduction::Largest => so_far.max(x.abs()),
        Reduction::NotFinite => so_far + one_if(!x.is_finite()),
        Reduction::NotANumber => so_far + one_if(x.is_nan()),
        // Of a newer API than this kit's.
        _ => f64::NAN,
    }
}

/// Combines two tensors of the same shape.
///
/// # Safety
///
/// Both are lent for this call, the first for writing, and share no elements.
unsafe fn combine_both(onto: TensorAbi, from: TensorAbi, combination: Combination) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (mut onto, from) = unsafe { (TensorMut::borrowed(onto)?, Tensor::borrowed(from)?) };
    if !matches!(
        combination,
        Combination::Add(_) | Combination::Blend(_) | Combination::Multiply | Combination::Copy
    ) {
        return Err(HookError::new(
            "the test kit does not know this combination",
        ));
    }
    let of_double = |x: f64, y: f64| match combination {
        Combination::Add(weight) => x + weight * y,
        Combination::Blend(weight) => x + weight * (y - x),
        Combination::Multiply => x * y,
        _ => y,
    };
    let of_single = |x: f32, y: f32| match combination {
        Combination::Add(weight) => x + weight as f32 * y,
        Combination::Blend(weight) => x + weight as f32 * (y - x),
        Combination::Multiply => x * y,
        _ => y,
    };
    let dtype = onto.view().dtype();
    match (dtype, combination) {
        (Some(DType::F64), _) => each(&mut onto, &from, of_double),
        (Some(DType::F32), _) => each(&mut onto, &from, of_single),
        (Some(DType::I64), Combination::Copy) => each::<i64>(&mut onto, &from, |_, y| y),
        (Some(DType::U32), Combination::Copy) => each::<u32>(&mut onto, &from, |_, y| y),
        (Some(DType::U8), Combination::Copy) => each::<u8>(&mut onto, &from, |_, y| y),
        _ => Err(HookError::new("elements of this type are not combined")),
    }
}

/// Combines elements of one type.
fn each<T: Element>(
    onto: &mut TensorMut<'_>,
    from: &Tensor<'_>,
    with: impl Fn(T, T) -> T,
) -> Result<()> {
    let others = from.to_contiguous::<T>()?;
    for (x, y) in onto.as_mut_slice::<T>()?.iter_mut().zip(others.iter()) {
        *x = with(*x, *y);
    }
    Ok(())
}

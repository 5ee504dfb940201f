//! The table for passes over collections, as plain loops.

use std::ffi::c_void;
use std::slice;

use super::tensors::TABLE as TENSORS;
use super::{refuse, stage};
use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{
    Change, Combination, LentVectors, Reduction, TensorAbi, VectorsAbi, VectorsTable,
};
use sconce_plugin_api::tensor::{DType, Element, Tensor, TensorMut};
use sconce_plugin_api::{HookError, Result};

pub(super) static TABLE: VectorsTable = VectorsTable {
    reduce,
    change,
    combine,
};

unsafe extern "C" fn reduce(
    context: *const c_void,
    reduction: u32,
    number: f64,
    vectors: *const VectorsAbi,
    results: *mut f64,
    capacity: usize,
    needed: *mut usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which all else is borrowed; `results` has room for `capacity`.
    unsafe {
        let lent = match LentVectors::lend(&TENSORS, context, vectors, false, error) {
            Ok(lent) => lent,
            Err(status) => return status.0,
        };
        let Some(reduction) = Reduction::from_numbers(reduction, number) else {
            return refuse(error, Status::UNSUPPORTED, "the kit has no such reduction");
        };
        let Some(needed) = needed.as_mut() else {
            return Status::INVALID.0;
        };
        *needed = lent.slice_count();
        if *needed > capacity || *needed == 0 {
            return Status::OK.0;
        }
        let mut results = slice::from_raw_parts_mut(results, *needed).iter_mut();
        for tensor in &lent.tensors {
            let (count, inner) = lent.slices(tensor);
            let values: Vec<f64> =
                match Tensor::borrowed(*tensor).and_then(|tensor| tensor.values()) {
                    Ok(values) => values.collect(),
                    Err(message) => return refuse(error, Status::UNSUPPORTED, message.message()),
                };
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
        Status::OK.0
    }
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

unsafe extern "C" fn change(
    context: *const c_void,
    change: u32,
    vectors: *const VectorsAbi,
    numbers: *const f64,
    count: usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which all else is borrowed.
    unsafe {
        let given: &[f64] = if numbers.is_null() {
            &[]
        } else {
            slice::from_raw_parts(numbers, count)
        };
        let Some(change) = Change::from_numbers(change, given) else {
            return refuse(error, Status::UNSUPPORTED, "the kit has no such change");
        };
        let lent = match LentVectors::lend(&TENSORS, context, vectors, true, error) {
            Ok(lent) => lent,
            Err(status) => return status.0,
        };
        if let Err(status) = lent.check_apart(&[], error) {
            return status.0;
        }
        if matches!(change, Change::ScaleSlices(factors) if factors.len() != lent.slice_count()) {
            let message = "there must be one factor for each slice";
            return refuse(error, Status::INVALID, message);
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
            let changed = TensorMut::borrowed(*tensor).and_then(|mut tensor| {
                if tensor.view().dtype() == Some(DType::F64) {
                    let numbers = tensor.as_mut_slice::<f64>()?.iter_mut().enumerate();
                    numbers.for_each(|(place, x)| *x = with(place, *x));
                } else {
                    let numbers = tensor.as_mut_slice::<f32>()?.iter_mut().enumerate();
                    numbers.for_each(|(place, x)| *x = with(place, f64::from(*x)) as f32);
                }
                Ok(())
            });
            if let Err(message) = changed {
                return refuse(error, Status::UNSUPPORTED, message.message());
            }
            first += slices;
        }
        Status::OK.0
    }
}

unsafe extern "C" fn combine(
    context: *const c_void,
    combination: u32,
    weight: f64,
    onto: *const VectorsAbi,
    from: *const VectorsAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which all else is borrowed.
    unsafe {
        if stage(context).is_none() {
            return Status::INVALID.0;
        }
        let Some(combination) = Combination::from_numbers(combination, weight) else {
            return refuse(
                error,
                Status::UNSUPPORTED,
                "the kit has no such combination",
            );
        };
        let lent = LentVectors::lend(&TENSORS, context, from, false, error).and_then(|from| {
            Ok((
                LentVectors::lend(&TENSORS, context, onto, true, error)?,
                from,
            ))
        });
        let (onto, from) = match lent {
            Ok(lent) => lent,
            Err(status) => return status.0,
        };
        if let Err(status) = onto.check_apart(&from.tensors, error) {
            return status.0;
        }
        let shapes = |lent: &LentVectors| -> Vec<Vec<i64>> {
            let shapes = lent.tensors.iter().map(LentVectors::shape);
            shapes.map(<[i64]>::to_vec).collect()
        };
        if shapes(&onto) != shapes(&from) {
            let message = "the tensors to be combined have different shapes";
            return refuse(error, Status::INVALID, message);
        }
        for (onto, from) in onto.tensors.iter().zip(&from.tensors) {
            if let Err(message) = combine_both(*onto, *from, combination) {
                return refuse(error, Status::UNSUPPORTED, message.message());
            }
        }
        Status::OK.0
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

//! The same passes over tensors on a device: by kernels of its own where they take the tensors, else composed of candle's operations.
//!
//! Sums are computed in `f64` here too, in the order of candle's kernels, which is always the same: the same device gives the
//! same bits, but not those of the CPU.

use candle_core::{D, DType, Result, Tensor, bail};

#[cfg(feature = "cuda")]
use crate::cuda::collections;
use crate::device::fetch;
use crate::host_copy::overwrite;
use crate::options::{Change, Combination, Reduction, Slices};

/// Reduces each slice of each tensor, as [`reduce`](super::reduce) does; results in order. All are on the same device, of any
/// type of elements. Waits once, for all results.
///
/// # Errors
///
/// If the device fails.
pub fn reduce_tensors(vectors: &[(Tensor, Slices)], reduction: Reduction) -> Result<Vec<f64>> {
    match reduce_on_device(vectors, reduction)? {
        Some(results) => fetch(&results)?.to_vec1(),
        None => Ok(Vec::new()),
    }
}

/// As [`reduce_tensors`], without waiting: the results are an `f64` vector on the tensors' device; `None` without tensors.
///
/// # Errors
///
/// If the device fails.
pub fn reduce_on_device(
    vectors: &[(Tensor, Slices)],
    reduction: Reduction,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "cuda")]
    if collections::takes(vectors.iter().map(|(tensor, _)| tensor)) {
        return collections::reduce(vectors, reduction);
    }
    let parts: Vec<Tensor> = (vectors.iter())
        .map(|(tensor, slices)| match tensor.elem_count() {
            0 => Tensor::zeros(slices.count(), DType::F64, tensor.device()),
            _ => reduced(tensor, *slices, reduction),
        })
        .collect::<Result<_>>()?;
    match parts.first() {
        Some(_) => Tensor::cat(&parts, 0).map(Some),
        None => Ok(None),
    }
}

/// Changes all tensors in place, as [`change`](super::change) does. All are contiguous, of `f32` or `f64`.
///
/// # Errors
///
/// If a tensor is of another type, there are not as many factors as slices, or the device fails.
pub fn change_tensors(vectors: &[(Tensor, Slices)], change: Change<'_>) -> Result<()> {
    #[cfg(feature = "cuda")]
    if collections::takes(vectors.iter().map(|(tensor, _)| tensor)) {
        return collections::change(vectors, change);
    }
    let mut first = 0;
    for (tensor, slices) in vectors {
        check_float(tensor)?;
        let own = first;
        first += slices.count();
        if tensor.elem_count() == 0 {
            continue;
        }
        let changed = match change {
            Change::Scale(factor) => in_double(tensor, |wide| wide * factor)?,
            Change::ScaleSlices(factors) => {
                let Some(factors) = factors.get(own..first) else {
                    bail!("there are more slices than factors for them");
                };
                let factors = Tensor::from_slice(factors, (1, factors.len(), 1), tensor.device())?;
                let cut = cut(tensor, *slices)?;
                in_double(&cut, |wide| wide.broadcast_mul(&factors))?.reshape(tensor.dims())?
            }
            Change::Clamp(lower, upper) => {
                let limit = |number: f64| filled(tensor, number);
                // NaN is neither smaller nor larger, and stays.
                let x = tensor.lt(lower)?.where_cond(&limit(lower)?, tensor)?;
                x.gt(upper)?.where_cond(&limit(upper)?, &x)?
            }
            Change::Fill(number) => filled(tensor, number)?,
        };
        overwrite(tensor, &changed)?;
    }
    Ok(())
}

/// Combines each tensor of `onto` with that of `from` at the same place, as [`combine`](super::combine) does. All are
/// contiguous and on the same device, and both of a pair of the same shape and type: `f32` or `f64`, or any for
/// [`Combination::Copy`].
///
/// # Errors
///
/// If two don't fit each other, or the device fails.
pub fn combine_tensors(onto: &[Tensor], from: &[Tensor], combination: Combination) -> Result<()> {
    if onto.len() != from.len() {
        bail!(
            "{} tensors can't be combined with {}",
            onto.len(),
            from.len()
        );
    }
    #[cfg(feature = "cuda")]
    if collections::takes(onto.iter().chain(from)) {
        return collections::combine(onto, from, combination);
    }
    for (x, y) in onto.iter().zip(from) {
        if !matches!(combination, Combination::Copy) {
            check_float(x)?;
        }
        if x.elem_count() == 0 {
            continue;
        }
        match combination {
            Combination::Add(weight) => overwrite(x, &(x + (y * weight)?)?)?,
            Combination::Blend(weight) => overwrite(x, &(x + ((y - x)? * weight)?)?)?,
            Combination::Multiply => overwrite(x, &(x * y)?)?,
            Combination::Copy => overwrite(x, y)?,
        }
    }
    Ok(())
}

fn check_float(tensor: &Tensor) -> Result<()> {
    match tensor.dtype() {
        DType::F32 | DType::F64 => Ok(()),
        other => bail!("elements of {other:?} are not changed in passes; f32 and f64 are"),
    }
}

fn filled(tensor: &Tensor, number: f64) -> Result<Tensor> {
    let number = Tensor::new(number, tensor.device())?.to_dtype(tensor.dtype())?;
    number.broadcast_as(tensor.dims())?.contiguous()
}

/// Computes in `f64` and rounds back.
fn in_double(tensor: &Tensor, change: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Tensor> {
    change(tensor.to_dtype(DType::F64)?)?.to_dtype(tensor.dtype())
}

/// A tensor as (repetitions, slices, elements of a run).
fn cut(tensor: &Tensor, slices: Slices) -> Result<Tensor> {
    let count = slices.count();
    let run = match count {
        1 => tensor.elem_count(),
        _ => slices.run(),
    };
    tensor
        .contiguous()?
        .reshape((tensor.elem_count() / (count * run), count, run))
}

/// The results of a tensor's slices, in `f64`.
fn reduced(tensor: &Tensor, slices: Slices, reduction: Reduction) -> Result<Tensor> {
    let x = cut(tensor, slices)?;
    // Whole numbers are exact in `f64`, and neither infinite nor NaN.
    let wide = || x.to_dtype(DType::F64);
    let sum = |x: Tensor| x.sum(D::Minus1)?.sum(0);
    let is_nan = |x: &Tensor| x.ne(x)?.to_dtype(DType::F64);
    match reduction {
        Reduction::Powers(order) if super::totals::is_square(order) => sum(wide()?.sqr()?),
        Reduction::Powers(order) => sum(wide()?.abs()?.powf(order)?),
        Reduction::Largest => {
            let wide = wide()?;
            let largest = wide.abs()?.max(D::Minus1)?.max(0)?;
            let nans = sum(is_nan(&wide)?)?;
            let nan = (nans.zeros_like()? + f64::NAN)?;
            nans.gt(0.0)?.where_cond(&nan, &largest)
        }
        Reduction::NotFinite => {
            // x · 0 is 0 for finite x, and NaN otherwise.
            sum(is_nan(&(wide()? * 0.0)?)?)
        }
        Reduction::NotANumber => sum(is_nan(&wide()?)?),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::super::{change, combine, reduce};
    use super::*;

    const SHAPE: [usize; 3] = [4, 5, 6];

    fn numbers(seed: u64) -> Vec<f32> {
        let mut stream = crate::random::stream(seed, "passes over tensors", 0, 0);
        let count = SHAPE.iter().product();
        (0..count).map(|_| stream.normal() as f32).collect()
    }

    fn tensor(numbers: &[f32]) -> Tensor {
        Tensor::from_slice(numbers, &SHAPE[..], &Device::Cpu).expect("a tensor")
    }

    fn bits(tensor: &Tensor) -> Vec<u32> {
        let numbers = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
        numbers
            .expect("numbers")
            .into_iter()
            .map(f32::to_bits)
            .collect()
    }

    #[test]
    fn reductions_are_those_of_the_kernels() -> Result<()> {
        let mut x = numbers(1);
        let y = numbers(2);
        for bad in [None, Some(f32::INFINITY), Some(f32::NAN)] {
            if let Some(bad) = bad {
                x[77] = bad;
            }
            for axis in 0..4 {
                let slices = Slices::along(&SHAPE, axis);
                for reduction in [
                    Reduction::Powers(1.0),
                    Reduction::Powers(2.0),
                    Reduction::Powers(3.0),
                    Reduction::Largest,
                    Reduction::NotFinite,
                    Reduction::NotANumber,
                ] {
                    let exact = reduce(1, &[(&x[..], slices), (&y[..], slices)], reduction);
                    let found =
                        reduce_tensors(&[(tensor(&x), slices), (tensor(&y), slices)], reduction)?;
                    assert_eq!(found.len(), exact.len());
                    for (found, exact) in found.iter().zip(&exact) {
                        let is_same = (found - exact).abs() <= 1e-12 * exact.abs()
                            || found.to_bits() == exact.to_bits()
                            || found.is_nan() && exact.is_nan();
                        assert!(is_same, "{reduction:?} along {axis}: {found}, not {exact}");
                    }
                }
            }
        }
        let empty = Tensor::zeros((0, 3), DType::F32, &Device::Cpu)?;
        let vectors = [(empty, Slices::WHOLE), (tensor(&y), Slices::WHOLE)];
        let found = reduce_tensors(&vectors, Reduction::Largest)?;
        assert!(found[0].abs() < f64::EPSILON && found[1] > 1.0, "{found:?}");
        Ok(())
    }

    #[test]
    fn changes_have_the_bits_of_the_kernels() -> Result<()> {
        let factors: Vec<f64> = (0..5).map(|slice| 0.3 * f64::from(slice)).collect();
        for kind in [
            Change::Scale(0.3),
            Change::ScaleSlices(&factors),
            Change::Clamp(-0.5, 0.25),
            Change::Fill(4.1),
        ] {
            let slices = match kind {
                Change::ScaleSlices(_) => Slices::along(&SHAPE, 1),
                _ => Slices::WHOLE,
            };
            let mut exact = numbers(3);
            exact[5] = f32::NAN;
            let found = tensor(&exact);
            change(1, &mut [(&mut exact[..], slices)], kind);
            change_tensors(&[(found.clone(), slices)], kind)?;
            assert_eq!(bits(&found), bits(&tensor(&exact)), "{kind:?}");
        }
        let bytes = Tensor::zeros(3, DType::U8, &Device::Cpu)?;
        assert!(change_tensors(&[(bytes, Slices::WHOLE)], Change::Scale(2.0)).is_err());
        Ok(())
    }

    #[test]
    fn combinations_have_the_bits_of_the_kernels() -> Result<()> {
        for kind in [
            Combination::Add(0.3),
            Combination::Blend(0.3),
            Combination::Multiply,
            Combination::Copy,
        ] {
            let (mut exact, other) = (numbers(4), numbers(5));
            let found = tensor(&exact);
            combine(1, &mut [&mut exact[..]], &[&other[..]], kind);
            combine_tensors(std::slice::from_ref(&found), &[tensor(&other)], kind)?;
            assert_eq!(bits(&found), bits(&tensor(&exact)), "{kind:?}");
        }
        Ok(())
    }

    #[test]
    fn results_stay_in_order_where_a_tensor_is_empty() {
        let empty = Tensor::zeros(0, DType::F32, &Device::Cpu).expect("no elements");
        let bad = Tensor::new(&[1.0, f32::NAN, f32::INFINITY], &Device::Cpu).expect("numbers");
        let vectors = [empty, bad].map(|tensor| (tensor, Slices::WHOLE));
        let counts = reduce_on_device(&vectors, Reduction::NotFinite).expect("counted");
        let counts = counts.expect("there are tensors").to_vec1::<f64>();
        assert_eq!(counts.expect("numbers"), [0.0, 2.0]);
        let nothing = reduce_on_device(&[], Reduction::NotFinite).expect("nothing to do");
        assert!(nothing.is_none());
    }
}

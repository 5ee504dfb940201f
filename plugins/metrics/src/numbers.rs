//! Conversion of elements of any type to 64-bit floats.

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::{BrainHalf, Half};

/// Appends the elements of a tensor to `numbers`, in row-major order. Exact for all types except `i64`.
///
/// # Errors
///
/// If this version of the API doesn't know the elements' type.
#[track_caller]
pub(crate) fn add(tensor: &Tensor<'_>, numbers: &mut Vec<f64>) -> Result<()> {
    match tensor.dtype() {
        Some(DType::F32) => {
            numbers.extend(tensor.to_contiguous::<f32>()?.iter().map(|x| f64::from(*x)));
        }
        Some(DType::F64) => numbers.extend_from_slice(&tensor.to_contiguous::<f64>()?),
        Some(DType::I64) => {
            numbers.extend(tensor.to_contiguous::<i64>()?.iter().map(|x| *x as f64));
        }
        Some(DType::U32) => {
            numbers.extend(tensor.to_contiguous::<u32>()?.iter().map(|x| f64::from(*x)));
        }
        Some(DType::U8) => {
            numbers.extend(tensor.to_contiguous::<u8>()?.iter().map(|x| f64::from(*x)));
        }
        Some(DType::Bf16) => {
            numbers.extend(
                tensor
                    .elements::<BrainHalf>()?
                    .map(|x| f64::from(f32::from(x))),
            );
        }
        Some(DType::F16) => numbers.extend(tensor.elements::<Half>()?.map(|x| half(x.0))),
        _ => bail!(
            "`{}` has elements of a type that is not known here",
            tensor.name()
        ),
    }
    Ok(())
}

/// Converts an IEEE 754 16-bit float: sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = ((bits >> 10) & 31, f64::from(bits & 1023) / 1024.0);
    let size = match exponent {
        0 => fraction * 2.0_f64.powi(-14),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        _ => (1.0 + fraction) * 2.0_f64.powi(i32::from(exponent) - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_are_read_as_ieee_754_has_them() {
        let cases = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2.0_f64.powi(-24)),
            (0x3555, 0.333_251_953_125),
            (0xfc00, f64::NEG_INFINITY),
        ];
        for (bits, value) in cases {
            assert_eq!(half(bits).to_bits(), f64::to_bits(value), "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}

//! A tensor's elements as `f64`, whatever their type.

use super::{BrainHalf, DType, Elements, Half, Tensor};
use crate::{HookError, Result};

/// Iterator over a tensor's elements as `f64`, in row-major order.
///
/// All supported types convert exactly, except integers beyond 2^53.
pub struct Values<'view>(Inner<'view>);

enum Inner<'view> {
    F32(Elements<'view, f32>),
    F64(Elements<'view, f64>),
    F16(Elements<'view, Half>),
    Bf16(Elements<'view, BrainHalf>),
    I64(Elements<'view, i64>),
    U32(Elements<'view, u32>),
    U8(Elements<'view, u8>),
}

impl Iterator for Values<'_> {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        match &mut self.0 {
            Inner::F32(elements) => elements.next().map(f64::from),
            Inner::F64(elements) => elements.next(),
            Inner::F16(elements) => elements.next().map(|half| f64::from(f32::from(half))),
            Inner::Bf16(elements) => elements.next().map(|half| f64::from(f32::from(half))),
            Inner::I64(elements) => elements.next().map(|integer| integer as f64),
            Inner::U32(elements) => elements.next().map(f64::from),
            Inner::U8(elements) => elements.next().map(f64::from),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Inner::F32(elements) => elements.size_hint(),
            Inner::F64(elements) => elements.size_hint(),
            Inner::F16(elements) => elements.size_hint(),
            Inner::Bf16(elements) => elements.size_hint(),
            Inner::I64(elements) => elements.size_hint(),
            Inner::U32(elements) => elements.size_hint(),
            Inner::U8(elements) => elements.size_hint(),
        }
    }
}

impl ExactSizeIterator for Values<'_> {}

impl<'view> Tensor<'view> {
    /// Iterates over the elements as `f64`, in row-major order, whatever their type.
    ///
    /// Use [`as_slice`](Tensor::as_slice) where speed counts and the type is known.
    ///
    /// # Errors
    ///
    /// If this version of the API doesn't know the element type.
    #[track_caller]
    pub fn values(&self) -> Result<Values<'view>> {
        Ok(Values(match self.dtype() {
            Some(DType::F32) => Inner::F32(self.elements()?),
            Some(DType::F64) => Inner::F64(self.elements()?),
            Some(DType::F16) => Inner::F16(self.elements()?),
            Some(DType::Bf16) => Inner::Bf16(self.elements()?),
            Some(DType::I64) => Inner::I64(self.elements()?),
            Some(DType::U32) => Inner::U32(self.elements()?),
            Some(DType::U8) => Inner::U8(self.elements()?),
            None => {
                return Err(HookError::new(format_args!(
                    "the elements of `{}` are of an unknown type",
                    self.name()
                )));
            }
        }))
    }

    /// Index of the first element, in row-major order, that is NaN or infinite; `None` if there is none, as among
    /// integers.
    ///
    /// Contiguous `f32` tensors without such elements are read once, at the speed of memory.
    ///
    /// # Errors
    ///
    /// If this version of the API doesn't know the element type.
    #[track_caller]
    pub fn first_non_finite(&self) -> Result<Option<usize>> {
        if !self.dtype().is_none_or(DType::is_float) {
            return Ok(None);
        }
        if let Ok(slice) = self.as_slice::<f32>() {
            // Zero times a NaN or infinity is NaN: most tensors need no check of each element.
            let sum: f32 = slice.iter().map(|value| value * 0.0).sum();
            if !sum.is_nan() {
                return Ok(None);
            }
        }
        Ok(self.values()?.position(|value| !value.is_finite()))
    }
}

impl From<Half> for f32 {
    fn from(half: Half) -> f32 {
        let bits = u32::from(half.0);
        let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, bits & 0x3ff);
        let magnitude = match exponent {
            // Subnormal: a multiple of 2^-24.
            0 => return f32::from_bits(sign << 31 | (fraction as f32 / 16_777_216.0).to_bits()),
            0x1f => 0xff << 23 | fraction << 13,
            _ => (exponent + 127 - 15) << 23 | fraction << 13,
        };
        f32::from_bits(sign << 31 | magnitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_decoded() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x83ff, -6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(
                f32::from(Half(bits)).to_bits(),
                f32::to_bits(value),
                "{bits:04x}"
            );
        }
        assert!(f32::from(Half(0x7e00)).is_nan() && f32::from(Half(0xfc01)).is_nan());
        assert_eq!(f32::from(BrainHalf(0x3f80)).to_bits(), 1.0_f32.to_bits());
    }
}

//! Elements as `bf16`, rounded as rounded products round them, and back.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use candle_core::CpuStorage;
use half::bf16;

use crate::kernels::{converted, rounded, write_all};
use crate::vectorised;

/// An element of 16 bits.
trait Half: Copy + Send + Sync + 'static {
    fn of(number: f32) -> Self;

    fn widened(self) -> f32;
}

impl Half for bf16 {
    #[inline(always)]
    fn of(number: f32) -> bf16 {
        bf16::from_bits(rounded(number) as u16)
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

vectorised! {
    fn round<'a, H: Half>(from: &[f32], to: &'a mut [MaybeUninit<H>]) -> &'a mut [H] {
        write_all(to, from.iter().map(|&number| H::of(number)))
    }
}

vectorised! {
    fn widen<'a, H: Half>(from: &[H], to: &'a mut [MaybeUninit<f32>]) -> &'a mut [f32] {
        write_all(to, from.iter().map(|half| half.widened()))
    }
}

/// Elements rounded to `bf16`.
pub(crate) fn halved(numbers: &[f32]) -> CpuStorage {
    CpuStorage::BF16(converted(numbers, round::<bf16>))
}

/// The elements of a tensor, those of `bf16` as `f32`.
pub(crate) fn whole(storage: &CpuStorage) -> Cow<'_, CpuStorage> {
    match storage {
        CpuStorage::BF16(numbers) => Cow::Owned(CpuStorage::F32(converted(numbers, widen::<bf16>))),
        other => Cow::Borrowed(other),
    }
}

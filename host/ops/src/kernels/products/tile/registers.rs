//! Vector registers of one instruction set, as tiles use them.

#![expect(
    unsafe_code,
    reason = "the instructions are behind pointers and a processor that has them"
)]

use std::arch::x86_64::{
    __m256, __m256i, __m512, __mmask16, _mm256_broadcast_ss, _mm256_cmpgt_epi32, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps, _mm256_set1_epi32,
    _mm256_setr_epi32, _mm256_setzero_ps, _mm256_storeu_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_storeu_ps,
};

/// Register operations that a tile needs from an instruction set.
///
/// # Safety
///
/// For all of them: the processor has the instructions. Pointers are valid for the elements that are read or written;
/// those that a mask leaves out are not accessed.
pub(super) trait Registers {
    type Register: Copy;
    /// Which of a register's elements are used.
    type Mask: Copy;

    /// Number of elements in a register.
    const LANES: usize;

    /// Rows of a tile two registers wide: as many as the registers have room for.
    const ROWS: usize;

    /// Selects the first `count` elements.
    unsafe fn mask(count: usize) -> Self::Mask;
    unsafe fn zero() -> Self::Register;
    unsafe fn load(from: *const f32) -> Self::Register;
    unsafe fn load_some(from: *const f32, mask: Self::Mask) -> Self::Register;
    /// 0 in place of negative elements; −0 and NaN stay.
    unsafe fn rectified(numbers: Self::Register) -> Self::Register;
    unsafe fn store(to: *mut f32, numbers: Self::Register);
    unsafe fn store_some(to: *mut f32, mask: Self::Mask, numbers: Self::Register);

    /// sums + (the element at `factor`) · numbers, rounded once.
    unsafe fn add_product(
        sums: Self::Register,
        factor: *const f32,
        numbers: Self::Register,
    ) -> Self::Register;
}

/// AVX-512: 32 registers of 16 elements.
pub(super) struct Avx512;

impl Registers for Avx512 {
    type Register = __m512;
    type Mask = __mmask16;

    const LANES: usize = 16;
    const ROWS: usize = 12;

    #[inline(always)]
    unsafe fn mask(count: usize) -> __mmask16 {
        if count >= 16 { !0 } else { (1 << count) - 1 }
    }

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512, and `from` is valid for a whole register.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: __mmask16) -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512, and `from` is valid for the elements that the mask
        // selects.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline(always)]
    unsafe fn rectified(numbers: __m512) -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512. Of two zeros, or with a NaN, the maximum is the second.
        unsafe { _mm512_max_ps(_mm512_setzero_ps(), numbers) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, numbers: __m512) {
        // SAFETY: by the trait's contract the processor has AVX-512, and `to` is valid for a whole register.
        unsafe { _mm512_storeu_ps(to, numbers) }
    }

    #[inline(always)]
    unsafe fn store_some(to: *mut f32, mask: __mmask16, numbers: __m512) {
        // SAFETY: by the trait's contract the processor has AVX-512, and `to` is valid for the elements that the mask
        // selects.
        unsafe { _mm512_mask_storeu_ps(to, mask, numbers) }
    }

    #[inline(always)]
    unsafe fn add_product(sums: __m512, factor: *const f32, numbers: __m512) -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512, and `factor` is valid for one element.
        unsafe { _mm512_fmadd_ps(_mm512_set1_ps(*factor), numbers, sums) }
    }
}

/// AVX2 with FMA: 16 registers of 8 elements.
pub(super) struct Avx2;

impl Registers for Avx2 {
    type Register = __m256;
    type Mask = __m256i;

    const LANES: usize = 8;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn mask(count: usize) -> __m256i {
        // SAFETY: by the trait's contract the processor has AVX2.
        unsafe {
            _mm256_cmpgt_epi32(
                _mm256_set1_epi32(if count < 8 { count as u8 } else { 8 }.into()),
                _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            )
        }
    }

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2, and `from` is valid for a whole register.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const f32, mask: __m256i) -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2, and `from` is valid for the elements that the mask
        // selects.
        unsafe { _mm256_maskload_ps(from, mask) }
    }

    #[inline(always)]
    unsafe fn rectified(numbers: __m256) -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2. Of two zeros, or with a NaN, the maximum is the second.
        unsafe { _mm256_max_ps(_mm256_setzero_ps(), numbers) }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, numbers: __m256) {
        // SAFETY: by the trait's contract the processor has AVX2, and `to` is valid for a whole register.
        unsafe { _mm256_storeu_ps(to, numbers) }
    }

    #[inline(always)]
    unsafe fn store_some(to: *mut f32, mask: __m256i, numbers: __m256) {
        // SAFETY: by the trait's contract the processor has AVX2, and `to` is valid for the elements that the mask
        // selects.
        unsafe { _mm256_maskstore_ps(to, mask, numbers) }
    }

    #[inline(always)]
    unsafe fn add_product(sums: __m256, factor: *const f32, numbers: __m256) -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2 and FMA, and `factor` is valid for one element.
        unsafe { _mm256_fmadd_ps(_mm256_broadcast_ss(&*factor), numbers, sums) }
    }
}

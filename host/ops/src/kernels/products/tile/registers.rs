//! Vector registers of one instruction set, as tiles use them.

#![expect(
    unsafe_code,
    reason = "the instructions are behind pointers and a processor that has them"
)]

use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512bh, __m512i, __mmask16, _CMP_LE_OQ, _CMP_LT_OQ, _mm256_and_ps,
    _mm256_and_si256, _mm256_andnot_ps, _mm256_blendv_ps, _mm256_broadcast_ss, _mm256_castps_si256,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps, _mm256_movemask_ps, _mm256_mul_ps,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
    _mm512_abs_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_cmplt_ps_mask, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_and_epi32, _mm512_mask_cmp_ps_mask, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_max_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_slli_epi32, _mm512_storeu_ps,
};
use std::mem::transmute;

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

    /// Rows of a tile one register wide, at most 16.
    const NARROW_ROWS: usize;

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

/// How a tile adds a product to its sums.
///
/// # Safety
///
/// As [`Registers`]; the processor has the instructions for it.
pub(super) trait Multiplies<R: Registers> {
    /// sums + (the word at `factor`) · words.
    unsafe fn add(sums: R::Register, factor: *const f32, words: R::Register) -> R::Register;
}

/// Words that are elements: each sum is rounded once.
pub(super) struct Singles;

impl<R: Registers> Multiplies<R> for Singles {
    #[inline(always)]
    unsafe fn add(sums: R::Register, factor: *const f32, words: R::Register) -> R::Register {
        // SAFETY: by the trait's contract.
        unsafe { R::add_product(sums, factor, words) }
    }
}

/// Words that are pairs of `bf16`, by AVX-512's instruction for them: the second product is added first, each sum is rounded once to
/// the nearest, and what is too small for a normal number is zero.
pub(super) struct Pairs;

impl Multiplies<Avx512> for Pairs {
    #[inline(always)]
    unsafe fn add(sums: __m512, factor: *const f32, words: __m512) -> __m512 {
        // SAFETY: by the trait's contract the processor has the instruction, and `factor` is valid for one word. Both registers are
        // of 512 bits.
        unsafe {
            let factor = _mm512_castps_si512(_mm512_set1_ps(*factor));
            let [factor, words] = [factor, _mm512_castps_si512(words)]
                .map(|bits| transmute::<__m512i, __m512bh>(bits));
            _mm512_dpbf16_ps(sums, factor, words)
        }
    }
}

/// [`Pairs`] by ordinary instructions, with the same bits.
pub(super) struct EmulatedPairs;

/// Scale of both factors, which shows whether a sum was too small before it was rounded to a denormal number, and of the sum.
const SCALE: f32 = f32::from_bits((127 + 48) << 23);
const SCALED: f32 = SCALE * SCALE;

/// The smallest normal number times [`SCALED`].
const TINY: f32 = f32::MIN_POSITIVE * SCALED;

/// Bits of a sign.
const SIGN: u32 = 1 << 31;

/// Bits of the second element of a pair.
const SECOND: u32 = 0xffff_0000;

impl Multiplies<Avx512> for EmulatedPairs {
    #[inline(always)]
    unsafe fn add(sums: __m512, factor: *const f32, words: __m512) -> __m512 {
        // SAFETY: by the trait's contract the processor has AVX-512, and `factor` is valid for one word.
        unsafe {
            let factor = _mm512_castps_si512(_mm512_set1_ps(*factor));
            let words = _mm512_castps_si512(words);
            let second = _mm512_set1_epi32(SECOND.cast_signed());
            let [[first_factor, first], [second_factor, second]] = [
                [factor, words].map(|pair| _mm512_slli_epi32::<16>(pair)),
                [factor, words].map(|pair| _mm512_and_si512(pair, second)),
            ];
            let sums = add_flushed_512(flushed_512(sums), second_factor, second);
            add_flushed_512(sums, first_factor, first)
        }
    }
}

/// 0 in place of denormal numbers.
#[inline(always)]
unsafe fn flushed_512(numbers: __m512) -> __m512 {
    // SAFETY: the processor has AVX-512, by the contract of the function that calls this one.
    unsafe {
        let is_small =
            _mm512_cmplt_ps_mask(_mm512_abs_ps(numbers), _mm512_set1_ps(f32::MIN_POSITIVE));
        let bits = _mm512_castps_si512(numbers);
        let sign = _mm512_set1_epi32(SIGN.cast_signed());
        _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, is_small, bits, sign))
    }
}

/// sums + factor · numbers, or 0 where that is too small for a normal number.
#[inline(always)]
unsafe fn add_flushed_512(sums: __m512, factor: __m512i, numbers: __m512i) -> __m512 {
    // SAFETY: the processor has AVX-512, by the contract of the function that calls this one.
    unsafe {
        let (factor, numbers) = (_mm512_castsi512_ps(factor), _mm512_castsi512_ps(numbers));
        let results = _mm512_fmadd_ps(factor, numbers, sums);
        let least = _mm512_set1_ps(f32::MIN_POSITIVE);
        let is_small = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_abs_ps(results), least);
        if is_small == 0 {
            return results;
        }
        let scale = _mm512_set1_ps(SCALE);
        let scaled = _mm512_fmadd_ps(
            _mm512_mul_ps(factor, scale),
            _mm512_mul_ps(numbers, scale),
            _mm512_mul_ps(sums, _mm512_set1_ps(SCALED)),
        );
        let is_tiny = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(
            is_small,
            _mm512_abs_ps(scaled),
            _mm512_set1_ps(TINY),
        );
        let bits = _mm512_castps_si512(results);
        let sign = _mm512_set1_epi32(SIGN.cast_signed());
        _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, is_tiny, bits, sign))
    }
}

impl Multiplies<Avx2> for EmulatedPairs {
    #[inline(always)]
    unsafe fn add(sums: __m256, factor: *const f32, words: __m256) -> __m256 {
        // SAFETY: by the trait's contract the processor has AVX2 and FMA, and `factor` is valid for one word.
        unsafe {
            let factor = _mm256_castps_si256(_mm256_broadcast_ss(&*factor));
            let words = _mm256_castps_si256(words);
            let second = _mm256_set1_epi32(SECOND.cast_signed());
            let [[first_factor, first], [second_factor, second]] = [
                [factor, words].map(|pair| _mm256_slli_epi32::<16>(pair)),
                [factor, words].map(|pair| _mm256_and_si256(pair, second)),
            ];
            let sums = add_flushed_256(flushed_256(sums), second_factor, second);
            add_flushed_256(sums, first_factor, first)
        }
    }
}

/// The size of each number.
#[inline(always)]
unsafe fn sizes_256(numbers: __m256) -> __m256 {
    // SAFETY: the processor has AVX2, by the contract of the function that calls this one.
    unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), numbers) }
}

/// 0 with the number's sign where a mask is set.
#[inline(always)]
unsafe fn zero_where_256(mask: __m256, numbers: __m256) -> __m256 {
    // SAFETY: the processor has AVX2, by the contract of the function that calls this one.
    unsafe {
        let signs = _mm256_and_ps(_mm256_set1_ps(-0.0), numbers);
        _mm256_blendv_ps(numbers, signs, mask)
    }
}

/// 0 in place of denormal numbers.
#[inline(always)]
unsafe fn flushed_256(numbers: __m256) -> __m256 {
    // SAFETY: the processor has AVX2, by the contract of the function that calls this one.
    unsafe {
        let least = _mm256_set1_ps(f32::MIN_POSITIVE);
        zero_where_256(
            _mm256_cmp_ps::<_CMP_LT_OQ>(sizes_256(numbers), least),
            numbers,
        )
    }
}

/// sums + factor · numbers, or 0 where that is too small for a normal number.
#[inline(always)]
unsafe fn add_flushed_256(sums: __m256, factor: __m256i, numbers: __m256i) -> __m256 {
    // SAFETY: the processor has AVX2 and FMA, by the contract of the function that calls this one.
    unsafe {
        let (factor, numbers) = (_mm256_castsi256_ps(factor), _mm256_castsi256_ps(numbers));
        let results = _mm256_fmadd_ps(factor, numbers, sums);
        let least = _mm256_set1_ps(f32::MIN_POSITIVE);
        let is_small = _mm256_cmp_ps::<_CMP_LE_OQ>(sizes_256(results), least);
        if _mm256_movemask_ps(is_small) == 0 {
            return results;
        }
        let scale = _mm256_set1_ps(SCALE);
        let scaled = _mm256_fmadd_ps(
            _mm256_mul_ps(factor, scale),
            _mm256_mul_ps(numbers, scale),
            _mm256_mul_ps(sums, _mm256_set1_ps(SCALED)),
        );
        let is_tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(sizes_256(scaled), _mm256_set1_ps(TINY));
        zero_where_256(_mm256_and_ps(is_small, is_tiny), results)
    }
}

/// AVX-512: 32 registers of 16 elements.
pub(super) struct Avx512;

impl Registers for Avx512 {
    type Register = __m512;
    type Mask = __mmask16;

    const LANES: usize = 16;
    const ROWS: usize = 12;
    const NARROW_ROWS: usize = 16;

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

/// Masks of AVX2: the one that selects `count` elements begins `8 - count` elements from the first.
static SELECTED: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Registers for Avx2 {
    type Register = __m256;
    type Mask = __m256i;

    const LANES: usize = 8;
    const ROWS: usize = 6;
    const NARROW_ROWS: usize = 12;

    #[inline(always)]
    unsafe fn mask(count: usize) -> __m256i {
        // From memory: a mask that is computed would be computed again at each step of a tile that has no register left for it.
        let from = SELECTED.as_ptr().wrapping_add(8 - count.min(8));
        // SAFETY: by the trait's contract the processor has AVX; a register's elements follow each of the first nine.
        unsafe { _mm256_loadu_si256(from.cast()) }
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

#[cfg(test)]
mod tests;

//! Pairs by the instruction, by ordinary ones and by scalar arithmetic.

use super::*;
use crate::random;

/// sum + factor · number, or 0 if that is too small for a normal number before it is rounded to a denormal one.
fn add_flushed(sum: f32, factor: f32, number: f32) -> f32 {
    let result = factor.mul_add(number, sum);
    if result.abs() > f32::MIN_POSITIVE || result.is_nan() {
        return result;
    }
    let scaled = (factor * SCALE).mul_add(number * SCALE, sum * SCALED);
    if scaled.abs() < TINY {
        0.0_f32.copysign(result)
    } else {
        result
    }
}

/// The definition of the arithmetic: the second product first.
fn add_pair(sum: f32, factor: u32, pair: u32) -> f32 {
    let sum = if sum.abs() < f32::MIN_POSITIVE {
        0.0_f32.copysign(sum)
    } else {
        sum
    };
    let second = |word: u32| f32::from_bits(word & SECOND);
    let first = |word: u32| f32::from_bits(word << 16);
    let sum = add_flushed(sum, second(factor), second(pair));
    add_flushed(sum, first(factor), first(pair))
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn native(sums: &mut [f32; 16], factor: f32, words: &[f32; 16]) {
    // SAFETY: the arrays have a register's elements, and the function has the instructions.
    unsafe {
        let sum = Avx512::load(sums.as_ptr());
        let sum = Pairs::add(sum, &raw const factor, Avx512::load(words.as_ptr()));
        Avx512::store(sums.as_mut_ptr(), sum);
    }
}
#[target_feature(enable = "avx512f")]
fn emulated_512(sums: &mut [f32; 16], factor: f32, words: &[f32; 16]) {
    // SAFETY: as above.
    unsafe {
        let sum = Avx512::load(sums.as_ptr());
        let words = Avx512::load(words.as_ptr());
        let sum = <EmulatedPairs as Multiplies<Avx512>>::add(sum, &raw const factor, words);
        Avx512::store(sums.as_mut_ptr(), sum);
    }
}
#[target_feature(enable = "avx2,fma")]
fn emulated_256(sums: &mut [f32; 16], factor: f32, words: &[f32; 16]) {
    for half in [0, 8] {
        // SAFETY: as above, for each half of the arrays.
        unsafe {
            let sum = Avx2::load(sums.as_ptr().add(half));
            let words = Avx2::load(words.as_ptr().add(half));
            let sum = <EmulatedPairs as Multiplies<Avx2>>::add(sum, &raw const factor, words);
            Avx2::store(sums.as_mut_ptr().add(half), sum);
        }
    }
}
/// Adds pairs to sixteen sums.
type Way = unsafe fn(&mut [f32; 16], f32, &[f32; 16]);

/// Sixteen sums by each way that this processor has.
fn by_all(sums: [f32; 16], factor: u32, pairs: [u32; 16]) -> Vec<(&'static str, [f32; 16])> {
    let factor = f32::from_bits(factor);
    let words = pairs.map(f32::from_bits);
    let mut found = Vec::new();
    let has_avx512 = is_x86_feature_detected!("avx512f");
    let ways: [(&'static str, bool, Way); 3] = [
        (
            "native",
            has_avx512 && is_x86_feature_detected!("avx512bf16"),
            native,
        ),
        ("AVX-512", has_avx512, emulated_512),
        (
            "AVX2",
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            emulated_256,
        ),
    ];
    for (name, is_there, way) in ways {
        if is_there {
            let mut sums = sums;
            // SAFETY: the processor has the instructions.
            unsafe { way(&mut sums, factor, &words) };
            found.push((name, sums));
        }
    }
    found
}

fn compare(sums: [f32; 16], factor: u32, pairs: [u32; 16]) {
    let expected: [f32; 16] = std::array::from_fn(|lane| add_pair(sums[lane], factor, pairs[lane]));
    for (name, found) in by_all(sums, factor, pairs) {
        for lane in 0..16 {
            let (found, expected) = (found[lane], expected[lane]);
            let same =
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            let (sum, pair) = (sums[lane], pairs[lane]);
            assert!(
                same,
                "{name}: {sum:e} + {factor:#x} · {pair:#x}: {found:e}, not {expected:e}"
            );
        }
    }
}

#[test]
fn pairs_are_added_the_second_first_by_whatever_instructions() {
    let mut stream = random::stream(1, "pairs", 0, 0);
    let mut bits = || (stream.uniform(0.0, 65536.0) as u32).min(0xffff);
    for round in 0..20_000 {
        // Any bits, moderate numbers, numbers near the smallest ones.
        let mut any = || match round % 3 {
            0 => bits(),
            1 => (0x3c00 + bits() % 0x0600) | (bits() & 0x8000),
            _ => (0x1f80 + bits() % 0x0200) | (bits() & 0x8000),
        };
        // Packing leaves no denormal numbers, which the instruction takes for zeros.
        let mut element = || {
            let bits = any();
            if bits & 0x7f80 == 0 {
                bits & 0x8000
            } else {
                bits
            }
        };
        let mut word = || element() | element() << 16;
        let factor = word();
        let pairs = std::array::from_fn(|_| word());
        let sums = std::array::from_fn(|lane| match (round % 3, lane % 3) {
            (_, 0) => 0.0,
            (2, _) => f32::from_bits(word() & 0x80ff_ffff),
            _ => f32::from_bits(word()),
        });
        compare(sums, factor, pairs);
    }
}

#[test]
fn what_is_too_small_is_zero_before_it_is_rounded_up() {
    // 2⁻¹²⁶ − 2⁻¹⁵⁰: rounded to a denormal number it would be the smallest normal one.
    let power = |exponent: i32| ((127 + exponent).cast_unsigned() << 23) >> 16;
    let pair = |first: u32, second: u32| first | second << 16;
    let factor = pair(power(-75) | 0x8000, power(-63));
    let pairs = [pair(power(-75), power(-63)); 16];
    let exact = add_pair(0.0, factor, pairs[0]);
    assert_eq!(exact.to_bits(), 0);
    compare([0.0; 16], factor, pairs);
    compare([f32::MIN_POSITIVE; 16], factor, [pair(power(-75), 0); 16]);
    compare([-f32::MIN_POSITIVE / 2.0; 16], factor, pairs);
    for edge in [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -0.0,
        f32::MAX,
        f32::MIN_POSITIVE,
    ] {
        compare([edge; 16], factor, pairs);
        compare([1.0; 16], pair(edge.to_bits() >> 16, power(0)), pairs);
        compare([edge; 16], 0, [0x8000_8000; 16]);
    }
}

#[target_feature(enable = "avx2,fma")]
fn selected(count: usize) -> [f32; 8] {
    let mut to = [0.0; 8];
    // SAFETY: the array has a register's elements, and the function has the instructions.
    unsafe {
        let all = Avx2::load([1.0; 8].as_ptr());
        Avx2::store_some(to.as_mut_ptr(), Avx2::mask(count), all);
    }
    to
}

#[test]
fn a_mask_selects_the_first_elements() {
    if !crate::kernels::has_tiles() {
        return;
    }
    for count in (0..20).chain([usize::MAX]) {
        // SAFETY: there are tiles, so the processor has AVX2 and FMA.
        let selected = unsafe { selected(count) };
        let expected = std::array::from_fn(|index| f32::from(u8::from(index < count)));
        assert_eq!(
            selected.map(f32::to_bits),
            <[f32; 8]>::map(expected, f32::to_bits),
            "{count}"
        );
    }
}

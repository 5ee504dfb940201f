//! Functions of one number in a form that compilers can do side by side.

use std::array::from_fn;

use candle_core::WithDType;
use candle_core::cpu::erf::erf_f64;
use num_traits::Float;

/// A float type that kernels are written for.
pub(crate) trait Number: WithDType + Float {
    const ZERO: Self;

    /// eˣ; in `f32` within 2 units in the last place up to x = 88, and 0 below −87.
    fn fast_exp(self) -> Self;

    /// The error function; in `f32` within 4e-7.
    fn fast_erf(self) -> Self;

    /// A small whole number in the last bits: to be chosen among beside numbers, as wide as they are. Nothing
    /// is to be computed with it.
    fn mark(place: u8) -> Self;

    /// What [`Number::mark`] was given.
    fn marked(self) -> u8;

    /// The same numbers, where they are `f32`.
    fn as_single(numbers: &[Self]) -> Option<&[f32]>;

    /// Itself where `is_kept` is 1, zero where it is 0: by its bits, without a comparison.
    fn kept(self, is_kept: u8) -> Self;
}

/// What is done with a number's bits, alike for every width.
macro_rules! by_bits {
    ($bits:ty) => {
        #[inline(always)]
        fn mark(place: u8) -> Self {
            Self::from_bits(place.into())
        }

        #[inline(always)]
        fn marked(self) -> u8 {
            self.to_bits() as u8
        }

        #[inline(always)]
        fn kept(self, is_kept: u8) -> Self {
            let none: $bits = 0;
            Self::from_bits(self.to_bits() & none.wrapping_sub(is_kept.into()))
        }
    };
}

impl Number for f32 {
    const ZERO: f32 = 0.0;

    /// e^x = 2ⁿ · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2, where seven terms of the series are
    /// enough.
    #[inline(always)]
    fn fast_exp(self) -> f32 {
        // Added to a number, it leaves the nearest whole one in the last bits.
        const ROUND: f32 = 12_582_912.0;
        const LN_2_HIGH: f32 = 0.693_359_4;
        const LN_2_LOW: f32 = -2.121_944_4e-4;
        let is_small = self < -87.0;
        let x = if self > 89.0 { 89.0 } else { self };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
        let series = 1.0 / 5040.0;
        let series = series * r + 1.0 / 720.0;
        let series = series * r + 1.0 / 120.0;
        let series = series * r + 1.0 / 24.0;
        let series = series * r + 1.0 / 6.0;
        let series = series * r + 0.5;
        let series = (series * r + 1.0) * r + 1.0;
        let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        if is_small { 0.0 } else { series * power }
    }

    /// x · P(x²) / Q(x²), fitted to the largest relative error (1.8e-9 without rounding) over |x| ≤
    /// 3.92, beyond which `f32` has 1.
    #[inline(always)]
    fn fast_erf(self) -> f32 {
        let x = if self > 3.92 { 3.92 } else { self };
        let x = if x < -3.92 { -3.92 } else { x };
        let z = x * x;
        let p = -1.279_996_9e-8;
        let p = p * z + 4.609_268e-6;
        let p = p * z + 3.767_601_6e-4;
        let p = p * z + 3.838_623_5e-3;
        let p = p * z + 5.424_400_4e-2;
        let p = p * z + 1.851_352_2e-1;
        let p = p * z + std::f32::consts::FRAC_2_SQRT_PI;
        let q = 6.239_95e-5;
        let q = q * z + 1.301_526_6e-3;
        let q = q * z + 1.543_005_4e-2;
        let q = q * z + 1.138_737_6e-1;
        let q = q * z + 4.974_052_2e-1;
        let q = q * z + 1.0;
        x * p / q
    }

    #[inline(always)]
    fn as_single(numbers: &[f32]) -> Option<&[f32]> {
        Some(numbers)
    }

    by_bits!(u32);
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    #[inline(always)]
    fn fast_exp(self) -> f64 {
        self.exp()
    }

    #[inline(always)]
    fn fast_erf(self) -> f64 {
        erf_f64(self)
    }

    #[inline(always)]
    fn as_single(_numbers: &[f64]) -> Option<&[f32]> {
        None
    }

    by_bits!(u64);
}

/// A constant as one of the numbers of a tensor.
#[inline(always)]
pub(crate) fn number<T: Number>(value: f64) -> T {
    <T as WithDType>::from_f64(value)
}

/// How many sums are kept side by side: two registers of AVX-512.
pub(crate) const LANES: usize = 32;

/// Σ f of the numbers at the same place of each slice, up to the end of the shortest, in a fixed order of
/// additions that compilers can do side by side.
#[inline(always)]
pub(crate) fn sum<T: Number, const N: usize>(of: [&[T]; N], f: impl Fn([T; N]) -> T) -> T {
    let count = of.iter().map(|numbers| numbers.len()).min().unwrap_or(0);
    let mut lanes = [T::ZERO; LANES];
    let mut start = 0;
    while start + LANES <= count {
        // Of a length that the compiler knows: no check for each number.
        let blocks: [&[T]; N] = from_fn(|which| &of[which][start..start + LANES]);
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += f(from_fn(|which| blocks[which][lane]));
        }
        start += LANES;
    }
    if start < count {
        // In lanes of its own: where some of them are picked out, they are kept in memory.
        let mut more = [T::ZERO; LANES];
        let rest: [&[T]; N] = from_fn(|which| &of[which][start..count]);
        for (lane, more) in more[..count - start].iter_mut().enumerate() {
            *more = f(from_fn(|which| rest[which][lane]));
        }
        for (sum, more) in lanes.iter_mut().zip(more) {
            *sum += more;
        }
    }
    total(lanes)
}

/// Σ f(i) over `0..count`, in the same order: for terms that are long themselves.
#[inline(always)]
pub(crate) fn sum_by<T: Number>(count: usize, f: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    for index in 0..count {
        lanes[index % LANES] += f(index);
    }
    total(lanes)
}

#[inline(always)]
fn total<T: Number>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest of some numbers; NaN where one of them is.
#[inline(always)]
pub(crate) fn largest<T: Number>(x: &[T]) -> T {
    // A NaN stays: nothing is larger than it.
    let larger = |most: T, x: T| if x > most || x.is_nan() { x } else { most };
    let mut lanes = [T::neg_infinity(); LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (most, &x) in lanes.iter_mut().zip(chunk) {
            *most = larger(*most, x);
        }
    }
    if !rest.is_empty() {
        // In lanes of its own, as above.
        let mut more = [T::neg_infinity(); LANES];
        more[..rest.len()].copy_from_slice(rest);
        for (most, more) in lanes.iter_mut().zip(more) {
            *most = larger(*most, more);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = larger(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_twice_the_digits() {
        for step in -8700..=8800_i16 {
            let x = f32::from(step) / 100.0 + 0.001;
            let exact = f64::from(x).exp();
            let error = (f64::from(x.fast_exp()) / exact - 1.0).abs();
            assert!(error < 2.4e-7, "{x}: {error}");
        }
        assert!(f32::NAN.fast_exp().is_nan());
        assert!(f32::INFINITY.fast_exp().is_infinite());
        assert!((f32::NEG_INFINITY.fast_exp()).abs() < f32::MIN_POSITIVE);
        assert!((0.0_f32.fast_exp() - 1.0).abs() < f32::EPSILON / 4.0);
    }

    #[test]
    fn error_functions_are_those_of_twice_the_digits() {
        for step in -600..=600_i16 {
            let x = f32::from(step) / 100.0;
            let error = (f64::from(x.fast_erf()) - erf_f64(f64::from(x))).abs();
            assert!(error < 4e-7, "{x}: {error}");
        }
        assert!(f32::NAN.fast_erf().is_nan());
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers")]
    fn sums_and_maxima_take_every_number_once() {
        for count in [0_u16, 1, 31, 32, 33, 100] {
            let numbers: Vec<f64> = (1..=count).map(f64::from).collect();
            let expected = f64::from(count) * f64::from(count + 1) / 2.0;
            assert_eq!(sum([&numbers], |[x]| x), expected);
            assert_eq!(sum_by(numbers.len(), |index| numbers[index]), expected);
            assert_eq!(
                sum([&numbers, &numbers[1.min(numbers.len())..]], |[_, next]| {
                    next
                }),
                expected - f64::from(count.min(1))
            );
            let most = if count == 0 {
                f64::NEG_INFINITY
            } else {
                f64::from(count)
            };
            assert_eq!(largest(&numbers), most);
        }
        assert!(largest(&[1.0, f32::NAN, 2.0]).is_nan());
    }
}

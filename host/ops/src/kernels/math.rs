//! Scalar functions in a form that compilers can vectorise.

use std::array::from_fn;

use candle_core::WithDType;
use candle_core::cpu::erf::erf_f64;
use num_traits::Float;

/// A float type that kernels are written for.
pub(crate) trait Number: WithDType + Float {
    const ZERO: Self;

    /// self · factor + summand, rounded once where `FUSED`.
    fn times_plus<const FUSED: bool>(self, factor: Self, summand: Self) -> Self;

    /// eˣ; in `f32` within 2 units in the last place up to x = 88, and 0 below −87.
    fn fast_exp<const FUSED: bool>(self) -> Self;

    /// tanh(x); in `f32` within 3 units in the last place.
    fn fast_tanh<const FUSED: bool>(self) -> Self;

    /// Φ(x) and φ(x), the standard normal distribution and its density.
    ///
    /// In `f32` Φ is accurate to 3e-7, and to a relative 3e-5 down to x = −5.
    fn normal<const FUSED: bool>(self) -> (Self, Self);

    /// A small integer in the lowest bits of a value; not for arithmetic.
    ///
    /// It is as wide as an element, so that it can be selected along with elements in vector registers.
    fn mark(place: u8) -> Self;

    /// The integer that [`Number::mark`] was given.
    fn marked(self) -> u8;

    /// The same slice, where elements are `f32`.
    fn as_single(numbers: &[Self]) -> Option<&[f32]>;

    /// The value itself where `is_kept` is 1, zero where it is 0: by a bit mask, without a comparison.
    fn kept(self, is_kept: u8) -> Self;
}

/// Methods that are the same for every width, given the integer type of the bits.
macro_rules! alike {
    ($bits:ty) => {
        #[inline(always)]
        fn times_plus<const FUSED: bool>(self, factor: Self, summand: Self) -> Self {
            if FUSED {
                self.mul_add(factor, summand)
            } else {
                self * factor + summand
            }
        }

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

/// Added to a number, it leaves the nearest integer in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// 2ⁿ, from n + [`ROUND`].
#[inline(always)]
fn power_of_two(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

impl Number for f32 {
    const ZERO: f32 = 0.0;

    /// e^x = 2ⁿ · e^r with n = round(x / ln 2) and |r| ≤ ln 2 / 2, where the series up to r⁷ is enough.
    #[inline(always)]
    fn fast_exp<const FUSED: bool>(self) -> f32 {
        const LN_2_HIGH: f32 = 0.693_359_4;
        const LN_2_LOW: f32 = -2.121_944_4e-4;
        let is_small = self < -87.0;
        let x = if self > 89.0 { 89.0 } else { self };
        let shifted = x.times_plus::<FUSED>(std::f32::consts::LOG2_E, ROUND);
        let n = shifted - ROUND;
        let r = n.times_plus::<FUSED>(-LN_2_HIGH, x);
        let r = n.times_plus::<FUSED>(-LN_2_LOW, r);
        let terms = [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ];
        let series = polynomial::<FUSED, _>(1.0 / 5040.0, terms, r);
        if is_small {
            0.0
        } else {
            series * power_of_two(shifted)
        }
    }

    /// (1 − e^(−2a)) / (1 + e^(−2a)) of a = |x|, which would cancel for small a: there x + x³ · P(x²) (Cephes, `tanhf`).
    #[inline(always)]
    fn fast_tanh<const FUSED: bool>(self) -> f32 {
        let size = self.abs();
        let power = (-2.0 * size).fast_exp::<FUSED>();
        let large = (1.0 - power) / (1.0 + power);
        let square = self * self;
        let terms = [
            2.063_908_8e-2,
            -5.373_971_5e-2,
            1.333_144_2e-1,
            -3.333_328e-1,
        ];
        let series = polynomial::<FUSED, _>(-5.704_988_7e-3, terms, square);
        let small = (size * square).times_plus::<FUSED>(series, size);
        let y = if size < 0.625 { small } else { large };
        y.copysign(self)
    }

    /// Φ(−a) = e^(−a²/2) · t · P(t) with t = 1 / (1 + a / 4), as in Abramowitz and Stegun, 7.1.26.
    ///
    /// P is fitted for the smallest error of a · Φ(−a) (1.6e-8 without rounding), with a relative error of Φ(−a) of at
    /// most 1.6e-5 up to a = 14. The power is 2^z = 2ⁿ · 2^f with |f| ≤ ½, where a polynomial is accurate to 1.1e-7.
    #[inline(always)]
    fn normal<const FUSED: bool>(self) -> (f32, f32) {
        // 1 / √(2π)
        const FACTOR: f32 = 0.398_942_3;
        const HALF_LOG2_E: f32 = 0.721_347_5;
        let t = self.abs().times_plus::<FUSED>(0.25, 1.0).recip();
        let terms = [
            3.346_493_5e-1,
            -2.549_207e-1,
            2.703_264_7e-1,
            3.006_814_8e-2,
            1.109_077_3e-1,
            9.893_846e-2,
        ];
        let p = polynomial::<FUSED, _>(-8.996_943_4e-2, terms, t);
        let z = self * self * -HALF_LOG2_E;
        let shifted = z + ROUND;
        let terms = [
            9.669_692e-3,
            5.550_558_5e-2,
            2.402_228_3e-1,
            std::f32::consts::LN_2,
            1.0,
        ];
        let series = polynomial::<FUSED, _>(1.330_060_8e-3, terms, z - (shifted - ROUND));
        let power = if z < -100.0 {
            0.0
        } else {
            series * power_of_two(shifted)
        };
        let tail = p * t * power;
        let distribution = if self < 0.0 { tail } else { 1.0 - tail };
        (distribution, power * FACTOR)
    }

    #[inline(always)]
    fn as_single(numbers: &[f32]) -> Option<&[f32]> {
        Some(numbers)
    }

    alike!(u32);
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    #[inline(always)]
    fn fast_exp<const FUSED: bool>(self) -> f64 {
        self.exp()
    }

    #[inline(always)]
    fn fast_tanh<const FUSED: bool>(self) -> f64 {
        self.tanh()
    }

    #[inline(always)]
    fn normal<const FUSED: bool>(self) -> (f64, f64) {
        // 1 / √(2π)
        const FACTOR: f64 = 0.398_942_280_401_432_7;
        let distribution = 0.5 + 0.5 * erf_f64(self * std::f64::consts::FRAC_1_SQRT_2);
        (distribution, FACTOR * (-0.5 * self * self).exp())
    }

    #[inline(always)]
    fn as_single(_numbers: &[f64]) -> Option<&[f32]> {
        None
    }

    alike!(u64);
}

/// Evaluates a polynomial by Horner's rule; coefficients are given from the highest power of `x` down.
#[inline(always)]
fn polynomial<const FUSED: bool, T: Number>(
    first: T,
    others: impl IntoIterator<Item = T>,
    x: T,
) -> T {
    let step = |sum: T, term| sum.times_plus::<FUSED>(x, term);
    others.into_iter().fold(first, step)
}

/// σ(x) = 1 / (1 + e⁻ˣ). Only exponentials of negative numbers are computed, so that none overflows.
#[inline(always)]
pub(crate) fn sigmoid<const FUSED: bool, T: Number>(x: T) -> T {
    let small = (-x.abs()).fast_exp::<FUSED>();
    let size = T::one() / (T::one() + small);
    if x < T::ZERO { small * size } else { size }
}

/// Converts a constant to the element type.
#[inline(always)]
pub(crate) fn number<T: Number>(value: f64) -> T {
    <T as WithDType>::from_f64(value)
}

/// Number of partial sums kept in parallel: two registers of AVX-512.
pub(crate) const LANES: usize = 32;

/// Σ f of the elements at the same index of each slice, up to the end of the shortest.
///
/// Additions are done in a fixed order that compilers can vectorise.
#[inline(always)]
pub(crate) fn sum<T: Number, const N: usize>(of: [&[T]; N], f: impl Fn([T; N]) -> T) -> T {
    let count = of.iter().map(|numbers| numbers.len()).min().unwrap_or(0);
    let mut lanes = [T::ZERO; LANES];
    let mut start = 0;
    while start + LANES <= count {
        // Of a length known to the compiler: no bounds check for each element.
        let blocks: [&[T]; N] = from_fn(|which| &of[which][start..start + LANES]);
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += f(from_fn(|which| blocks[which][lane]));
        }
        start += LANES;
    }
    if start < count {
        // In lanes of their own: a variable number of lanes would force `lanes` from registers into memory.
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

/// Σ f(i) over `0..count`, in the same order as [`sum`]; for terms that are loops themselves.
#[inline(always)]
pub(crate) fn sum_by<T: Number>(count: usize, f: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    for index in 0..count {
        lanes[index % LANES] += f(index);
    }
    total(lanes)
}

/// The sum of partial sums, in a fixed order.
#[inline(always)]
pub(crate) fn total<T: Number>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The largest element; NaN if there is one.
#[inline(always)]
pub(crate) fn largest<T: Number>(x: &[T]) -> T {
    // A NaN stays: nothing compares as larger.
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
        // In lanes of their own, so that the others stay in registers.
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
            for power in [x.fast_exp::<true>(), x.fast_exp::<false>()] {
                let error = (f64::from(power) / exact - 1.0).abs();
                assert!(error < 2.4e-7, "{x}: {error}");
            }
        }
        assert!(f32::NAN.fast_exp::<true>().is_nan());
        assert!(f32::INFINITY.fast_exp::<true>().is_infinite());
        assert!((f32::NEG_INFINITY.fast_exp::<true>()).abs() < f32::MIN_POSITIVE);
        assert!((0.0_f32.fast_exp::<true>() - 1.0).abs() < f32::EPSILON / 4.0);
    }

    #[test]
    fn hyperbolic_tangents_and_sigmoids_are_those_of_twice_the_digits() {
        for step in -2000..=2000_i16 {
            let x = f32::from(step) / 100.0 + 0.001;
            let exact = [f64::from(x).tanh(), 1.0 / (1.0 + f64::from(-x).exp())];
            for ours in [
                [x.fast_tanh::<true>(), sigmoid::<true, _>(x)],
                [x.fast_tanh::<false>(), sigmoid::<false, _>(x)],
            ] {
                for (ours, exact) in ours.iter().zip(exact) {
                    let error = (f64::from(*ours) / exact - 1.0).abs();
                    assert!(error < 3e-7, "{x}: {error}");
                }
            }
        }
        for small in [0.0_f32, -0.0, 1e-30, -1e-20] {
            assert_eq!(small.fast_tanh::<true>().to_bits(), small.to_bits());
        }
        assert!(f32::NAN.fast_tanh::<true>().is_nan() && sigmoid::<true, _>(f32::NAN).is_nan());
        let ends = [f32::INFINITY, f32::NEG_INFINITY];
        let tangents = ends.map(|x| x.fast_tanh::<true>().to_bits());
        assert_eq!(tangents, [1.0_f32, -1.0].map(f32::to_bits));
        let sigmoids = ends.map(|x| sigmoid::<true, _>(x).to_bits());
        assert_eq!(sigmoids, [1.0_f32, 0.0].map(f32::to_bits));
    }

    #[test]
    fn normal_distributions_are_those_of_twice_the_digits() {
        for step in -1400..=1400_i16 {
            let x = f32::from(step) / 100.0;
            let (exact, density) = f64::from(x).normal::<false>();
            for (ours, of_ours) in [x.normal::<true>(), x.normal::<false>()] {
                let error = (f64::from(ours) - exact).abs();
                assert!(error < 3e-7, "{x}: {error}");
                if x > -5.0 {
                    assert!(error < 3e-5 * exact, "{x}: {error} of {exact}");
                }
                let error = (f64::from(of_ours) - density).abs();
                assert!(error < 2e-7, "{x}: {error}");
            }
        }
        assert!(f32::NAN.normal::<true>().0.is_nan());
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

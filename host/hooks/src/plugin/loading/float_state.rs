//! Saves and restores the processor's floating-point state around the loading of a library and the calls of hooks.
//!
//! A constructor in a library linked with `-ffast-math` may disable denormal numbers for the whole process;
//! training would then give different bits.
//!
//! Reading the control register takes 8 ns on an AMD EPYC (Zen 4), longer than the call of a hook. [`Rounding`] computes
//! instead, and shows every change that results would show. Changed exception masks show in none: they are found
//! where the register is read.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_castps_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_setr_ps,
};
#[cfg(target_arch = "x86_64")]
use std::mem::MaybeUninit;

/// Control bits of the SSE unit: rounding mode, flush-to-zero, denormals-are-zero, exception masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatState {
    control: u32,
}

/// The sticky exception flags, which ordinary arithmetic sets.
#[cfg(target_arch = "x86_64")]
const FLAGS: u32 = 0x3f;

impl FloatState {
    /// Reads the state of the current thread.
    #[inline]
    pub(crate) fn read() -> FloatState {
        FloatState {
            control: read_control(),
        }
    }

    /// Restores this state if it has changed; returns whether it had.
    pub(crate) fn restore(self) -> bool {
        let is_changed = FloatState::read() != self;
        if is_changed {
            write_control(self.control);
        }
        is_changed
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_control() -> u32 {
    let mut control = MaybeUninit::<u32>::uninit();
    // SAFETY: `stmxcsr` writes the 32-bit control register to `control`, which is valid for writes and
    // initialised by it.
    let control = unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) control.as_mut_ptr(), options(nostack, preserves_flags));
        control.assume_init()
    };
    control & !FLAGS
}

/// Sums that are different in every mode that has other results: rounded in another direction, or with denormal
/// numbers taken or returned as zeros.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding(__m128i);

#[cfg(target_arch = "x86_64")]
impl Rounding {
    /// Computes the sums in the mode of the current thread.
    #[inline]
    pub(crate) fn compute() -> Rounding {
        /// A quarter of the distance from 1 to the number below.
        const SMALL: f32 = 1.0 / 67_108_864.0;
        /// The smallest denormal number.
        const DENORMAL: f32 = f32::from_bits(1);
        // SAFETY: SSE2 is part of x86-64. The instruction changes one register and the sticky exception flags, which
        // nothing reads; the compiler would compute the sum of constants itself.
        unsafe {
            let mut sums = _mm_setr_ps(1.0, 1.0, DENORMAL, 0.0);
            let addends = _mm_setr_ps(SMALL, -SMALL, DENORMAL, 0.0);
            std::arch::asm!(
                "addps {sums}, {addends}",
                sums = inout(xmm_reg) sums,
                addends = in(xmm_reg) addends,
                options(nomem, nostack, preserves_flags)
            );
            Rounding(_mm_castps_si128(sums))
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl PartialEq for Rounding {
    /// By bits: a comparison of denormal numbers depends on the mode.
    #[inline]
    fn eq(&self, other: &Rounding) -> bool {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi32(self.0, other.0)) == 0xffff }
    }
}

/// Modes are not looked at on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rounding;

#[cfg(not(target_arch = "x86_64"))]
impl Rounding {
    #[inline]
    pub(crate) fn compute() -> Rounding {
        Rounding
    }
}

#[cfg(target_arch = "x86_64")]
fn write_control(control: u32) {
    // SAFETY: `ldmxcsr` loads a value that was read from this register, so it sets no reserved bits.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_control() -> u32 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn write_control(_control: u32) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_changed_mode_is_seen_and_put_back() {
        let before = FloatState::read();
        assert!(!before.restore());
        write_control(before.control | 0x8040); // flush to zero, denormals are zero
        assert!(before.restore());
        assert_eq!(FloatState::read(), before);
    }

    #[test]
    fn every_mode_of_other_results_is_found_without_the_register() {
        let before = FloatState::read();
        let usual = Rounding::compute();
        // Denormals are zero, flush to zero, rounding down, up and towards zero.
        for mode in [0x40, 0x8000, 0x2000, 0x4000, 0x6000] {
            write_control(before.control | mode);
            let found = Rounding::compute();
            write_control(before.control);
            assert!(found != usual, "{mode:#x}");
        }
        assert!(Rounding::compute() == usual);
    }
}

//! Saves and restores the processor's floating-point state around the loading of a library and the calls of hooks.
//!
//! A constructor in a library linked with `-ffast-math` may disable denormal numbers for the whole process;
//! training would then give different bits.
//!
//! Reading the control register takes 8 ns on an AMD EPYC (Zen 4), longer than the call of a hook. [`is_ordinary`] computes
//! instead, and finds every change that other results would show. Changed exception masks show none: they are found
//! where the register is read.

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

/// Whether arithmetic rounds to nearest and keeps denormal numbers, on the current thread.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn is_ordinary() -> bool {
    /// Too small to change 1 when added or subtracted: a quarter of the distance to the number below.
    const SMALL: f32 = 1.0 / 67_108_864.0;
    let (mut sum, mut difference, mut denormal) = (1.0_f32, 1.0_f32, f32::from_bits(1));
    // By instructions, as the compiler would compute with constants itself.
    // SAFETY: the instructions change the three registers and the sticky exception flags, which nothing reads.
    unsafe {
        std::arch::asm!(
            "addss {sum}, {small}",
            "subss {difference}, {small}",
            "addss {denormal}, {denormal}",
            sum = inout(xmm_reg) sum,
            difference = inout(xmm_reg) difference,
            denormal = inout(xmm_reg) denormal,
            small = in(xmm_reg) SMALL,
            options(nomem, nostack, preserves_flags)
        );
    }
    // As integers, whose comparison depends on no mode.
    let one = 1.0_f32.to_bits();
    sum.to_bits() == one && difference.to_bits() == one && denormal.to_bits() == 2
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn is_ordinary() -> bool {
    true
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
        assert!(is_ordinary());
        // Denormals are zero, flush to zero, rounding down, up and towards zero.
        for mode in [0x40, 0x8000, 0x2000, 0x4000, 0x6000] {
            write_control(before.control | mode);
            let found = is_ordinary();
            write_control(before.control);
            assert!(!found, "{mode:#x}");
        }
        assert!(is_ordinary());
    }
}

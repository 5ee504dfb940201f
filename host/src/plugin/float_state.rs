//! Saves and restores the processor's floating-point state around the loading of a library.
//!
//! A constructor in a library linked with `-ffast-math` may disable denormal numbers for the whole process;
//! training would then give different bits.

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
}

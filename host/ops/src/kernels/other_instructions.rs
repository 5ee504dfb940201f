//! The same bits by other instructions: a test compares what it has computed with what it computes in a process limited to AVX2, since
//! the instruction set is fixed at its first use.

use std::process::Command;

use super::{InstructionLevel, VARIABLE, level};

/// A number that all bits of results go into.
#[derive(Clone, Copy)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, numbers: &[f32]) {
        for number in numbers {
            self.0 = (self.0 ^ u64::from(number.to_bits())).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Asserts that the test of this name has the same one with AVX2, where this process has more.
    #[expect(clippy::print_stdout, reason = "the other process reads it")]
    pub(crate) fn expect_same_with_avx2(self, name: &str) {
        let text = format!("digest {:x}.", self.0);
        println!("{text}");
        if level() != InstructionLevel::Avx512 {
            return;
        }
        let output = Command::new(std::env::current_exe().expect("the tests"))
            .args(["--exact", name, "--nocapture"])
            .env(VARIABLE, "avx2")
            .output()
            .expect("the tests");
        let found = String::from_utf8_lossy(&output.stdout);
        assert!(found.contains(&text), "not {text} but {found}");
    }
}

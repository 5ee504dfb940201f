//! Memory that a model would take, counted from shapes before anything is allocated.

use std::fmt;

use crate::parameter_kind::ParameterKind;

/// Memory for a model, of which its construction takes what parameters and outputs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Number of bytes that there are.
    available: u64,
    /// Number of arrays that each parameter has: itself, its gradient, the optimizer's state.
    copies: u64,
    /// Number of samples in a batch.
    batch: u64,
    /// Number of bytes that parameters and buffers have taken.
    taken: u128,
}

impl MemoryBudget {
    /// A budget of `available` bytes for a model whose parameters have `copies` arrays each, and which is given batches of
    /// `batch` samples.
    pub fn new(available: u64, copies: u64, batch: u64) -> MemoryBudget {
        MemoryBudget {
            available,
            copies,
            batch,
            taken: 0,
        }
    }

    /// Returns the number of bytes that parameters and buffers have taken.
    pub fn taken(&self) -> u128 {
        self.taken
    }

    /// Takes what a parameter or buffer needs.
    pub fn take(
        &mut self,
        shape: &[usize],
        size: usize,
        kind: ParameterKind,
    ) -> Result<(), TooLarge> {
        let copies = match kind {
            ParameterKind::Parameter => self.copies,
            ParameterKind::Buffer => 1,
        };
        let bytes = bytes(shape, size, copies);
        self.taken = self.taken.saturating_add(bytes);
        if self.taken <= u128::from(self.available) {
            return Ok(());
        }
        let (total, available) = (ByteCount(self.taken), ByteCount(self.available.into()));
        let of_training = if copies > 1 {
            " with its gradient and the optimizer's state"
        } else {
            ""
        };
        Err(TooLarge(format!(
            "needs {}{of_training}, the model as far as this {total}; there are {available} of memory",
            ByteCount(bytes)
        )))
    }

    /// Checks that a layer's output fits. Outputs are not added up: which of them are kept at the same time depends on the layers.
    pub fn check_output(&self, shape: &[usize], size: usize) -> Result<(), TooLarge> {
        let bytes = bytes(shape, size, self.batch);
        let total = self.taken.saturating_add(bytes);
        if total <= u128::from(self.available) {
            return Ok(());
        }
        let (total, available) = (ByteCount(total), ByteCount(self.available.into()));
        Err(TooLarge(format!(
            "gives {shape:?} for each of {} samples, {}, with the parameters {total}; there are {available} of memory",
            self.batch,
            ByteCount(bytes)
        )))
    }
}

/// Explains why something does not fit into the budget: the rest of a sentence about it.
#[derive(Debug)]
pub struct TooLarge(pub String);

/// Number of bytes of `count` arrays of a shape; the largest number if it is larger.
fn bytes(shape: &[usize], size: usize, count: u64) -> u128 {
    let sides = shape.iter().map(|&side| side as u128);
    let factors = sides.chain([size as u128, u128::from(count)]);
    factors.fold(1, u128::saturating_mul)
}

/// A number of bytes in a unit that fits.
struct ByteCount(u128);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.1} GB", bytes / 1e9),
            1_000_000_000_000..1_000_000_000_000_000_000 => write!(f, "{:.1} TB", bytes / 1e12),
            _ => write!(f, "{bytes:.1e} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_add_up_and_outputs_are_compared_one_by_one() {
        let mut budget = MemoryBudget::new(1000, 3, 10);
        let parameter = ParameterKind::Parameter;
        budget.take(&[5, 10], 4, parameter).expect("600 bytes");
        budget
            .take(&[50], 4, ParameterKind::Buffer)
            .expect("200 more");
        assert_eq!(budget.taken(), 800);
        budget.check_output(&[5], 4).expect("200");
        budget.check_output(&[5], 4).expect("in the same place");
        let error = budget.check_output(&[6], 4).expect_err("240").0;
        assert_eq!(
            error,
            "gives [6] for each of 10 samples, 0.2 kB, with the parameters 1.0 kB; there are 1.0 kB of memory"
        );
        let error = budget.take(&[17], 4, parameter).expect_err("204").0;
        assert!(
            error.starts_with("needs 0.2 kB with its gradient"),
            "{error}"
        );
    }

    #[test]
    fn no_shape_is_too_large_to_be_counted() {
        let mut budget = MemoryBudget::new(u64::MAX, 4, u64::MAX);
        let shape = [usize::MAX; 5];
        for error in [
            budget.check_output(&shape, 8).expect_err("too large").0,
            budget
                .take(&shape, 8, ParameterKind::Parameter)
                .expect_err("too large")
                .0,
        ] {
            assert!(error.contains("3.4e38 bytes"), "{error}");
        }
    }
}

//! Sums of shifted vectors, and scalar products with them.

use crate::kernels::math::{Number, sum};
use crate::vectorised;

/// Elements computed at once: two registers of AVX-512.
pub(super) const BLOCK: usize = 32;

vectorised! {
    /// Σ factors\[t\] · numbers\[p + offsets\[t\]\] for each p of `sums`, which are whole blocks.
    pub(super) fn correlate(numbers: &[f32], offsets: &[usize], factors: &[f32], sums: &mut [f32]) {
        for (index, sums) in sums.chunks_exact_mut(BLOCK).enumerate() {
            let mut block = [0.0; BLOCK];
            for (&offset, &factor) in offsets.iter().zip(factors) {
                let seen = &numbers[index * BLOCK + offset..][..BLOCK];
                for (sum, &x) in block.iter_mut().zip(seen) {
                    *sum = x.times_plus::<FUSED>(factor, *sum);
                }
            }
            sums.copy_from_slice(&block);
        }
    }
}

vectorised! {
    /// Adds Σ g\[p\] · numbers\[p + offsets\[t\]\] over all p to each of `sums`.
    pub(super) fn add_products(g: &[f32], numbers: &[f32], offsets: &[usize], sums: &mut [f32]) {
        for (total, &offset) in sums.iter_mut().zip(offsets) {
            let seen = &numbers[offset..][..g.len()];
            *total += sum([g, seen], |[g, x]| g * x);
        }
    }
}

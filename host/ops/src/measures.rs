//! What metrics of logits are made of, computed on the logits' device without waiting for it.

use candle_core::{Result, Tensor};

/// How many rows of logits (rows, classes) have their target among the `k` largest, and how many rows count: an `f64` vector of
/// two, on the device of both. Of equal logits, earlier ones rank higher; NaN ranks above all numbers, and as a target's logit it is
/// a miss. Rows whose target is `ignored` don't count. `None` where there is no kernel for the device or the type.
///
/// # Errors
///
/// If there are not as many targets as rows, or the device fails.
pub fn hits(
    logits: &Tensor,
    targets: &Tensor,
    k: usize,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::measures::hits(logits, targets, k, ignored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (logits, targets, k, ignored);
        Ok(None)
    }
}

/// The sum of the cross entropies of the rows that count, and their number; otherwise as [`hits`]. NaN where a target is none of
/// the classes.
///
/// # Errors
///
/// As [`hits`].
pub fn cross_entropies(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::measures::cross_entropies(logits, targets, ignored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (logits, targets, ignored);
        Ok(None)
    }
}

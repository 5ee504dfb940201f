//! What an attention computes, beside its tensors.
//!
//! - `visible`: which keys a query sees; `rotation`: rotary position embeddings; `dropout`: which weights are dropped.

mod dropout;
mod rotation;
mod visible;

use candle_core::{Result, bail};

pub use dropout::AttentionDropout;
pub(crate) use dropout::{ROW_STEP, dropped_word};
pub use rotation::{RotaryTable, Rotation, TokenPositions};
pub use visible::{KeyIntervals, VisibleKeys};

/// What an attention computes, beside its tensors.
#[derive(Clone, Debug)]
pub struct AttentionTerms {
    /// Number of heads of queries.
    pub heads: usize,
    /// Number of heads of keys and values, a divisor of `heads`: each serves as many neighbouring heads of queries.
    pub kv_heads: usize,
    /// Factor of the scores, above 0; 1 / √(width of a head) if none.
    pub scale: Option<f64>,
    /// Keys that a query sees.
    pub visible: VisibleKeys,
    /// Rotation of queries and keys, of which there are as many.
    pub rotation: Option<Rotation>,
    /// Dropped weights.
    pub dropout: Option<AttentionDropout>,
}

impl AttentionTerms {
    /// Every query sees all keys, or with `causal` those of earlier positions and its own; as many heads of keys as of queries.
    pub fn new(heads: usize, causal: bool) -> AttentionTerms {
        AttentionTerms {
            heads,
            kv_heads: heads,
            scale: None,
            visible: if causal {
                VisibleKeys::Causal
            } else {
                VisibleKeys::All
            },
            rotation: None,
            dropout: None,
        }
    }

    /// Whether it is attention as [`AttentionTerms::new`] gives it, and for which kernels of devices are made; then, whether it
    /// is causal.
    #[cfg_attr(
        not(feature = "cuda"),
        allow(dead_code, reason = "only GPUs have such kernels")
    )]
    pub(crate) fn plain(&self) -> Option<bool> {
        let is_causal = match self.visible {
            VisibleKeys::All => false,
            VisibleKeys::Causal => true,
            VisibleKeys::Each(_) => return None,
        };
        let is_plain = self.heads == self.kv_heads
            && self.scale.is_none()
            && self.rotation.is_none()
            && self.dropout.is_none();
        is_plain.then_some(is_causal)
    }

    /// The factor of the scores.
    pub(crate) fn factor(&self, each: usize) -> f64 {
        self.scale
            .unwrap_or_else(|| 1.0 / (each.max(1) as f64).sqrt())
    }

    /// Checks them against (batch, queries, keys) and the width of a head.
    pub(crate) fn check(&self, [batch, queries, keys]: [usize; 3], each: usize) -> Result<()> {
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            bail!(
                "an attention of {} heads has {} heads of keys, which must divide them",
                self.heads,
                self.kv_heads
            )
        }
        if self
            .scale
            .is_some_and(|scale| scale <= 0.0 || scale.is_nan())
        {
            bail!(
                "an attention's scale must be above 0, found {:?}",
                self.scale
            )
        }
        self.visible.check([batch, queries, keys])?;
        let Some(rotation) = &self.rotation else {
            return Ok(());
        };
        if queries != keys {
            bail!(
                "an attention of {queries} queries to {keys} keys rotates both; rotate them before, where these are of \
                 other positions"
            )
        }
        rotation.check(batch, queries, each)
    }
}

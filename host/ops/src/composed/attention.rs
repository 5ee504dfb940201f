//! Attention and softmax.

use candle_core::{D, Device, Result, Tensor};

use super::cast::{operand, widened};
use super::of;
use crate::storage::tables::Tables;

/// Multi-head attention from packed queries, keys and values, (batch, length, 3 · width).
pub(crate) fn attention(qkv: &Tensor, heads: usize, causal: bool) -> Result<Tensor> {
    let qkv = &*operand(qkv)?;
    own_kernel!(crate::cuda::attention::attention(qkv, heads, causal));
    of([qkv], |[qkv]| {
        let (batch, length, three) = qkv.dims3()?;
        let width = three / 3;
        let head = width / heads;
        let part = |index: usize| {
            let part = qkv.narrow(2, index * width, width)?;
            let heads = part.reshape((batch, length, heads, head))?;
            heads.transpose(1, 2)?.contiguous()
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scores = q.matmul(&k.transpose(2, 3)?.contiguous()?)?;
        let scores = (&*widened(&scores)? * (head as f64).powf(-0.5))?;
        let weights = softmax_of(&scores, causal)?.to_dtype(qkv.dtype())?;
        let heads = weights.matmul(&v)?.transpose(1, 2)?;
        heads.reshape((batch, length, width))
    })
}

/// Softmax over the last dimension.
pub(crate) fn softmax(x: &Tensor, causal: bool) -> Result<Tensor> {
    own_kernel!(crate::cuda::softmax::softmax(x, causal));
    of([x], |[x]| softmax_of(&*widened(x)?, causal))
}

fn softmax_of(x: &Tensor, causal: bool) -> Result<Tensor> {
    let masked;
    let x = if causal {
        let (queries, keys) = (x.dim(D::Minus2)?, x.dim(D::Minus1)?);
        let mask = MASKS.get((queries, keys), x.device(), |_| {
            mask(queries, keys, x.device())
        })?;
        masked = x.broadcast_add(&mask.to_dtype(x.dtype())?)?;
        &masked
    } else {
        x
    };
    let largest = x.detach().max_keepdim(D::Minus1)?;
    let powers = x.broadcast_sub(&largest)?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}

static MASKS: Tables<(usize, usize), Tensor> = Tables::new();

/// 0 where the query i sees the key, up to i + keys − queries, and −∞ elsewhere.
fn mask(queries: usize, keys: usize, device: &Device) -> Result<Tensor> {
    let of = |place: usize| {
        let (query, key) = (place / keys.max(1), place % keys.max(1));
        if key + queries <= query + keys {
            0.0
        } else {
            f32::NEG_INFINITY
        }
    };
    let numbers: Vec<f32> = (0..queries * keys).map(of).collect();
    Tensor::from_vec(numbers, (queries, keys), device)
}

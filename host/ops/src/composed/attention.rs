//! Attention, rotary positions and softmax.

use candle_core::{D, DType, Device, Result, Tensor};

use super::cast::{operand, widened};
use super::of;
use crate::options::{
    AttentionDropout, AttentionTerms, KeyIntervals, ROW_STEP, Rotation, VisibleKeys, dropped_word,
};
use crate::storage::tables::Tables;

/// Multi-head attention from packed queries, keys and values, (batch, length, (heads + 2 · key heads) · width of a head).
pub(crate) fn attention(qkv: &Tensor, terms: &AttentionTerms) -> Result<Tensor> {
    let qkv = &*operand(qkv)?;
    own_kernel!(match terms.plain() {
        Some(causal) => crate::cuda::attention::attention(qkv, terms.heads, causal),
        None => Ok(None),
    });
    of([qkv], |[qkv]| {
        let each = qkv.dim(2)? / (terms.heads + 2 * terms.kv_heads);
        let (width, kv_width) = (terms.heads * each, terms.kv_heads * each);
        let q = qkv.narrow(2, 0, width)?;
        let k = qkv.narrow(2, width, kv_width)?;
        let v = qkv.narrow(2, width + kv_width, kv_width)?;
        mixed([&q, &k, &v], terms)
    })
}

/// Multi-head attention from queries, keys and values of their own, each (batch, positions, heads · width of a head).
pub(crate) fn attention_of([q, k, v]: [&Tensor; 3], terms: &AttentionTerms) -> Result<Tensor> {
    let (q, k, v) = (&*operand(q)?, &*operand(k)?, &*operand(v)?);
    of([q, k, v], |inputs| mixed(inputs, terms))
}

fn mixed([q, k, v]: [&Tensor; 3], terms: &AttentionTerms) -> Result<Tensor> {
    let (batch, queries, width) = q.dims3()?;
    let (heads, kv_heads) = (terms.heads, terms.kv_heads);
    let (each, keys, group) = (width / heads, k.dim(1)?, heads / kv_heads);
    let apart = |x: &Tensor, heads: usize| {
        let heads = x.reshape((batch, x.dim(1)?, heads, each))?;
        heads.transpose(1, 2)?.contiguous()
    };
    let (mut q, mut k, v) = (apart(q, heads)?, apart(k, kv_heads)?, apart(v, kv_heads)?);
    if let Some(rotation) = &terms.rotation {
        (q, k) = (turned(&q, rotation)?, turned(&k, rotation)?);
    }
    // Heads of queries that share a head of keys are rows of one product.
    let q = q.reshape((batch, kv_heads, group * queries, each))?;
    let scores = q.matmul(&k.transpose(2, 3)?.contiguous()?)?;
    let scores = (&*widened(&scores)? * terms.factor(each))?;
    let scores = scores.reshape((batch, heads, queries, keys))?;
    let weights = match &terms.visible {
        VisibleKeys::All => softmax_of(&scores, false)?,
        VisibleKeys::Causal => softmax_of(&scores, true)?,
        VisibleKeys::Each(intervals) => softmax_within(&scores, intervals)?,
    };
    let weights = match &terms.dropout {
        None => weights,
        Some(dropout) => weights.mul(&dropout_factors(&weights, dropout)?)?,
    };
    let weights = weights.to_dtype(v.dtype())?;
    let weights = weights.reshape((batch, kv_heads, group * queries, keys))?;
    let heads = weights.matmul(&v)?.reshape((batch, heads, queries, each))?;
    heads.transpose(1, 2)?.reshape((batch, queries, width))
}

/// Softmax of scores (batch, heads, queries, keys) over each query's visible keys; zeros where there are none.
fn softmax_within(scores: &Tensor, intervals: &KeyIntervals) -> Result<Tensor> {
    let (_, _, queries, keys) = scores.dims4()?;
    let rows = intervals.rows();
    let (mut hidden, mut sees) = (Vec::with_capacity(rows * queries * keys), Vec::new());
    for &[begin, end] in (0..rows).flat_map(|row| intervals.row(row)) {
        let is_visible = |key: usize| begin == end || (begin as usize..end as usize).contains(&key);
        let row = (0..keys).map(is_visible);
        hidden.extend(row.map(|is_visible| if is_visible { 0.0 } else { f32::NEG_INFINITY }));
        sees.push(if begin < end { 1.0_f32 } else { 0.0 });
    }
    let (device, dtype) = (scores.device(), scores.dtype());
    let hidden = Tensor::from_vec(hidden, (rows, 1, queries, keys), device)?.to_dtype(dtype)?;
    let sees = Tensor::from_vec(sees, (rows, 1, queries, 1), device)?.to_dtype(dtype)?;
    softmax_of(&scores.broadcast_add(&hidden)?, false)?.broadcast_mul(&sees)
}

/// Factors of weights (batch, heads, queries, keys): the same that kernels draw.
fn dropout_factors(weights: &Tensor, dropout: &AttentionDropout) -> Result<Tensor> {
    let (batch, heads, queries, keys) = weights.dims4()?;
    let (threshold, factor) = (dropout.threshold(), dropout.factor() as f32);
    let mut factors = Vec::with_capacity(weights.elem_count());
    for head in 0..batch * heads {
        for query in 0..queries {
            let (mut low, high) = dropout.row(head, query);
            factors.extend((0..keys).map(|_| {
                let is_dropped = dropped_word(low, high) < threshold;
                low = low.wrapping_add(ROW_STEP);
                if is_dropped { 0.0 } else { factor }
            }));
        }
    }
    Tensor::from_vec(factors, weights.shape(), weights.device())?.to_dtype(weights.dtype())
}

/// Vectors (batch, length, heads · width of a head) turned by the angles of their positions.
pub(crate) fn rotated(x: &Tensor, heads: usize, rotation: &Rotation) -> Result<Tensor> {
    of([x], |[x]| {
        let (batch, length, width) = x.dims3()?;
        let apart = x.reshape((batch, length, heads, width / heads))?;
        let turned = turned(&apart.transpose(1, 2)?.contiguous()?, rotation)?;
        turned.transpose(1, 2)?.reshape((batch, length, width))
    })
}

static ANGLES: Tables<(u64, DType), Tensor> = Tables::new();

/// Vectors (batch, heads, length, width of a head) turned by the angles of their positions.
fn turned(x: &Tensor, rotation: &Rotation) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = &*widened(x)?;
    let (_, _, length, each) = x.dims4()?;
    let (table, device) = (&rotation.table, x.device());
    let pairs = table.pairs();
    let angles = ANGLES.get((table.number(), x.dtype()), device, |_| {
        let shape = (table.positions(), 2 * pairs);
        match x.dtype() {
            DType::F64 => Tensor::from_slice(table.rows::<f64>()?, shape, device),
            _ => Tensor::from_slice(table.rows::<f32>()?, shape, device),
        }
    })?;
    let (rows, positions) = rotation.listed(length);
    let positions = Tensor::from_vec(positions, rows * length, device)?;
    let angles = angles.index_select(&positions, 0)?;
    let angles = angles.reshape((rows, 1, length, 2 * pairs))?;
    let (cosines, sines) = (angles.narrow(3, 0, pairs)?, angles.narrow(3, pairs, pairs)?);
    let (first, second) = (x.narrow(3, 0, pairs)?, x.narrow(3, pairs, pairs)?);
    let turned_first = (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?;
    let turned_second = (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?;
    let rest = x.narrow(3, 2 * pairs, each - 2 * pairs)?;
    let parts = [turned_first, turned_second, rest];
    let used = if each > 2 * pairs { 3 } else { 2 };
    Tensor::cat(&parts[..used], D::Minus1)?.to_dtype(dtype)
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

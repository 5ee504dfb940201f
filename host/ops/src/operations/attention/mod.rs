//! Multi-head self-attention from packed queries, keys and values as one operation.

mod sizes;
mod tiled;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use self::tiled::TiledAttention;
use crate::autograd::tape::apply1;
use crate::kernels::fill::{Schedule, SharedSlice, UninitInterleaved, fill_parts};
use crate::kernels::math::{LANES, largest, number, sum};
use crate::kernels::{Matrix, UninitBuffer, multiply_uninit, region, write_all};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};
use sizes::AttentionSizes;

/// softmax(Q · Kᵀ / √(width of a head)) · V for each head.
///
/// From (batch, length, 3 · width), which is Q, K and V side by side, each with the heads side by side, to (batch,
/// length, width). With `causal` a position attends only to itself and to those before it.
pub fn attention(qkv: &Tensor, heads: usize, causal: bool) -> Result<Tensor> {
    let sizes = AttentionSizes::of(qkv.dims(), heads)?;
    if qkv.elem_count() == 0 {
        let shape = (sizes.batch, sizes.length, sizes.width);
        return Tensor::zeros(shape, qkv.dtype(), qkv.device());
    }
    if composed::is_chosen(qkv) {
        return composed::attention(qkv, heads, causal);
    }
    apply1(&ready(qkv)?, AttentionOp { sizes, causal })
}

struct AttentionOp {
    sizes: AttentionSizes,
    causal: bool,
}

/// Length to compute of a row with `seen` visible positions: whole registers.
///
/// A remainder would be computed element by element.
#[inline(always)]
fn rounded(seen: usize, length: usize) -> usize {
    seen.next_multiple_of(LANES).min(length)
}

vectorised! {
    /// Replaces each row of scores, times `scale`, by its softmax over the visible positions, and the others by 0.
    fn softmax_rows<T: Number>(scores: &mut [T], length: usize, scale: T, causal: bool) {
        for (index, row) in scores.chunks_exact_mut(length).enumerate() {
            let seen = if causal { index + 1 } else { length };
            let end = rounded(seen, length);
            row[seen..end].fill(T::neg_infinity());
            let inside = &mut row[..end];
            let most = largest(inside);
            for x in inside.iter_mut() {
                *x = ((*x - most) * scale).fast_exp::<FUSED>();
            }
            let size = T::one() / sum([&*inside], |[x]| x);
            for x in inside.iter_mut() {
                *x *= size;
            }
            row[seen..].fill(T::ZERO);
        }
    }
}

vectorised! {
    /// Replaces the gradients g of the weights p by those of the scores, p · (g − Σ g · p) · scale.
    fn softmax_gradient<T: Number>(p: &[T], g: &mut [T], length: usize, scale: T, causal: bool) {
        let rows = p.chunks_exact(length).zip(g.chunks_exact_mut(length));
        for (index, (p, g)) in rows.enumerate() {
            let seen = if causal { index + 1 } else { length };
            let end = rounded(seen, length);
            g[seen..end].fill(T::ZERO);
            let p = &p[..end];
            let mean = sum([p, &g[..end]], |[p, g]| p * g);
            for (g, &p) in g[..end].iter_mut().zip(p) {
                *g = p * (*g - mean) * scale;
            }
            g[seen..].fill(T::ZERO);
        }
    }
}

impl AttentionOp {
    fn scale<T: Number>(&self) -> T {
        number(1.0 / (self.sizes.each() as f64).sqrt())
    }

    /// Computes the attention weights of a head, (length, length), into `weights`.
    fn weights<'a, T: Number>(
        &self,
        qkv: &[T],
        index: usize,
        weights: &'a mut UninitBuffer<T>,
    ) -> &'a [T] {
        let queries = self.sizes.part(qkv, 0, index);
        let keys = self.sizes.part(qkv, 1, index);
        let scores = multiply_uninit(weights.slots(), queries, keys.t());
        softmax_rows(scores, self.sizes.length, self.scale(), self.causal);
        scores
    }

    fn forward<T: Number>(&self, qkv: &[T]) -> Vec<T> {
        let sizes = self.sizes;
        let (length, each) = (sizes.length, sizes.each());
        let schedule = Schedule::per_thread(sizes.parts(), sizes.batch * sizes.heads, 1);
        let memory = UninitInterleaved::new([sizes.batch, length, sizes.heads, each]);
        fill_parts(schedule, memory, |heads, mut y| {
            let mut weights = UninitBuffer::new(length * length);
            let mut mixed = UninitBuffer::new(length * each);
            for index in heads.clone() {
                let weights = self.weights(qkv, index, &mut weights);
                let weights = Matrix::new(weights, length, length);
                let values = sizes.part(qkv, 2, index);
                let mixed = multiply_uninit(mixed.slots(), weights, values);
                y.write_next(|row, y| {
                    write_all(y, mixed[row * each..(row + 1) * each].iter().copied())
                });
            }
            y.finish()
        })
    }

    fn backward<T: Number>(&self, qkv: &[T], g: &[T]) -> Vec<T> {
        let sizes = self.sizes;
        let (length, each) = (sizes.length, sizes.each());
        let mut gradients = UninitBuffer::new(qkv.len());
        let shared = SharedSlice::new(gradients.slots());
        let parts = sizes.parts();
        region::run(parts, |part| {
            let mut weights = UninitBuffer::new(length * length);
            let mut weight_gradients = UninitBuffer::new(length * length);
            let mut matrix = UninitBuffer::new(length * each);
            for index in region::range(sizes.batch * sizes.heads, 1, part, parts) {
                let weights = self.weights(qkv, index, &mut weights);
                let of_output = sizes.output(g, index);
                let values = sizes.part(qkv, 2, index);
                let of_scores = multiply_uninit(weight_gradients.slots(), of_output, values.t());
                softmax_gradient(weights, of_scores, length, self.scale(), self.causal);
                let of_scores = Matrix::new(&*of_scores, length, length);
                let weights = Matrix::new(weights, length, length);
                let queries = sizes.part(qkv, 0, index);
                let keys = sizes.part(qkv, 1, index);
                for (which, left, right) in [
                    (0, of_scores, keys),
                    (1, of_scores.t(), queries),
                    (2, weights.t(), of_output),
                ] {
                    let matrix = multiply_uninit(matrix.slots(), left, right);
                    let (image, head) = (index / sizes.heads, index % sizes.heads);
                    let begin =
                        image * length * 3 * sizes.width + which * sizes.width + head * each;
                    for (row, from) in matrix.chunks_exact(each).enumerate() {
                        let start = begin + row * 3 * sizes.width;
                        // SAFETY: a head of an image is in one part only, and these elements are those of its queries,
                        // keys or values at one position: `begin` depends on all three, and is less than a position's
                        // 3 · width elements from the start of the image's first position.
                        #[expect(unsafe_code, reason = "each head has its own elements")]
                        let slots = unsafe { shared.part(start..start + each) };
                        write_all(slots, from.iter().copied());
                    }
                }
            }
        });
        // SAFETY: the parts have all heads of all images, and of each the loops have written queries, keys and values
        // at every position, `each` elements: together (batch, length, 3, heads, each), which is all of the memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            gradients.written()
        }
    }
}

impl CustomOp1 for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let shape = (self.sizes.batch, self.sizes.length, self.sizes.width);
        if let (CpuStorage::F32(_), Some(tiled)) =
            (storage, TiledAttention::of(self.sizes, self.causal))
        {
            let y = tiled.forward(numbers(storage, layout)?);
            return Ok((stored(y), shape.into()));
        }
        for_floats!(storage, T => {
            let y = self.forward(numbers::<T>(storage, layout)?);
            Ok((stored(y), shape.into()))
        })
    }

    fn bwd(&self, qkv: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gradient = ready(gradient)?;
        let (guard, layout) = qkv.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&guard)?;
        if let (CpuStorage::F32(_), Some(tiled)) =
            (storage, TiledAttention::of(self.sizes, self.causal))
        {
            let g = numbers(cpu(&gradient_guard)?, gradient_layout)?;
            let gradients = tiled.backward(numbers(storage, layout)?, g);
            return Ok(Some(new_tensor(gradients, qkv.shape())?));
        }
        for_floats!(storage, T => {
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let gradients = self.backward(numbers::<T>(storage, layout)?, g);
            Ok(Some(new_tensor(gradients, qkv.shape())?))
        })
    }
}

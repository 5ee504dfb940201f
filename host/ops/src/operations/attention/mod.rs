//! Multi-head attention as one operation: softmax(Q · Kᵀ · scale) · V for each head.
//!
//! **Parts.** `sizes`: what fits together, and where the elements of a head are. `tiled`: for `f32`, by tiles. `general`: for any float
//! type, by general matrix multiplications. `rotation`: vectors turned by the angles of their positions.
//!
//! **Flow.** 1. [`attention_with`] checks its terms, and has what no kernel computes composed. 2. The operation views queries, keys and
//! values in place, side by side or in tensors of their own. 3. Tiles or general products compute outputs, and in the backward pass
//! weights again, and the gradients of all three.

mod general;
mod rotation;
mod sizes;
#[cfg(test)]
mod tests;
mod tiled;

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp1, CustomOp3, Layout, Result, Shape, Tensor};

use crate::autograd::aside::hand_over;
use crate::autograd::tape::{apply1, apply3, is_recording};
use crate::choice::rounded_outputs::KeptOutputs;
use crate::choice::rounded_products::product_terms;
use crate::composed;
use crate::kernels::fill::SharedSlice;
use crate::kernels::{Terms, UninitBuffer};
use crate::options::AttentionTerms;
use crate::storage::halves::whole;
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use general::GeneralAttention;
use rotation::Turning;
pub use rotation::rotated;
use sizes::{AttentionSizes, Part, PartLayout};
use tiled::TiledAttention;

/// softmax(Q · Kᵀ / √(width of a head)) · V for each head.
///
/// From (batch, length, 3 · width), which is Q, K and V side by side, each with the heads side by side, to (batch,
/// length, width). With `causal` a position attends only to itself and to those before it.
pub fn attention(qkv: &Tensor, heads: usize, causal: bool) -> Result<Tensor> {
    attention_with(
        AttentionInputs::Packed(qkv),
        &AttentionTerms::new(heads, causal),
    )
}

/// Queries, keys and values of an attention; each has its heads side by side.
#[derive(Clone, Copy, Debug)]
pub enum AttentionInputs<'a> {
    /// Side by side: (batch, length, (heads + 2 · key heads) · width of a head).
    Packed(&'a Tensor),
    /// Queries (batch, queries, heads · width of a head), keys and values (batch, keys, key heads · width of a head). They may be
    /// views of larger tensors.
    Separate([&'a Tensor; 3]),
}

/// Attention of any kind, to (batch, queries, heads · width of a head).
///
/// # Errors
///
/// If the tensors or the terms don't fit together.
pub fn attention_with(inputs: AttentionInputs<'_>, terms: &AttentionTerms) -> Result<Tensor> {
    let counts = (terms.heads, terms.kv_heads);
    let sizes = match inputs {
        AttentionInputs::Packed(qkv) => AttentionSizes::packed(qkv.dims(), counts)?,
        AttentionInputs::Separate(all) => AttentionSizes::separate(all.map(Tensor::dims), counts)?,
    };
    terms.check([sizes.batch, sizes.queries, sizes.keys], sizes.each)?;
    let (AttentionInputs::Packed(first) | AttentionInputs::Separate([first, ..])) = inputs;
    let shape = sizes.output_shape();
    if sizes.keys == 0 || shape.elem_count() == 0 {
        return Tensor::zeros(shape, first.dtype(), first.device());
    }
    if composed::is_chosen_for_products(first) {
        return match inputs {
            AttentionInputs::Packed(qkv) => composed::attention(qkv, terms),
            AttentionInputs::Separate(all) => composed::attention_of(all, terms),
        };
    }
    let op = AttentionOp {
        sizes,
        terms: terms.clone(),
        products: product_terms(),
        kept_outputs: KeptOutputs::asked(),
    };
    match inputs {
        AttentionInputs::Packed(qkv) => apply1(&ready(qkv)?, op),
        AttentionInputs::Separate([q, k, v]) => {
            let (q, k, v) = (in_rows(q)?, in_rows(k)?, in_rows(v)?);
            apply3(&q, &k, &v, op)
        }
    }
}

/// Whether attention of queries, keys and values side by side in a tensor of these dimensions, from now on, rounds them and reads them no
/// other way, and there will be a backward pass that reads them again.
pub fn rounds_attention(qkv: &[usize], terms: &AttentionTerms) -> bool {
    product_terms() == Terms::Pairs
        && is_recording()
        && terms.rotation.is_none()
        && AttentionSizes::packed(qkv, (terms.heads, terms.kv_heads)).is_ok_and(tiled::pays)
}

/// A tensor whose last dimension is contiguous: itself, where it is.
fn in_rows(x: &Tensor) -> Result<Tensor> {
    match x.stride() {
        [_, _, 1] => Ok(x.clone()),
        _ => ready(x),
    }
}

struct AttentionOp {
    sizes: AttentionSizes,
    terms: AttentionTerms,
    /// Of the products of both passes, where they are computed by tiles.
    products: Terms,
    kept_outputs: KeptOutputs,
}

impl AttentionOp {
    fn turning<T: Number>(&self) -> Result<Option<Turning<'_, T>>> {
        let rotation = self.terms.rotation.as_ref();
        let turning = rotation.map(|rotation| Turning::of(rotation, self.sizes.queries));
        turning.transpose()
    }

    fn tiled(&self) -> Result<TiledAttention<'_>> {
        Ok(TiledAttention::new(
            self.sizes,
            &self.terms,
            self.turning()?,
            self.products,
        ))
    }

    fn general<T: Number>(&self) -> Result<GeneralAttention<'_, T>> {
        Ok(GeneralAttention {
            sizes: self.sizes,
            terms: &self.terms,
            turning: self.turning()?,
        })
    }

    fn forward(&self, parts: [(&CpuStorage, PartLayout); 3]) -> Result<(CpuStorage, Shape)> {
        let outputs = self.outputs(parts)?;
        Ok((self.kept_outputs.of(outputs), self.sizes.output_shape()))
    }

    fn outputs(&self, [q, k, v]: [(&CpuStorage, PartLayout); 3]) -> Result<CpuStorage> {
        if let CpuStorage::F32(_) = q.0
            && tiled::pays(self.sizes)
        {
            let parts = [part(q)?, part(k)?, part(v)?];
            return Ok(stored(self.tiled()?.forward(parts)));
        }
        for_floats!(q.0, T => {
            let parts = [part::<T>(q)?, part(k)?, part(v)?];
            Ok(stored(self.general()?.forward(parts)))
        })
    }
}

/// What gradients are written to, and where in it those of queries, keys and values are.
type GradientTargets<'a, T> = ([&'a SharedSlice<'a, MaybeUninit<T>>; 3], [PartLayout; 3]);

impl AttentionOp {
    /// Computes the gradients of queries, keys and values, of elements of any float type.
    fn backward(
        &self,
        [q, k, v]: [(&CpuStorage, PartLayout); 3],
        (g, g_layout): (&CpuStorage, &Layout),
        form: Form,
    ) -> Result<Vec<Tensor>> {
        if let CpuStorage::F32(_) = q.0
            && tiled::pays(self.sizes)
        {
            let parts = [part(q)?, part(k)?, part(v)?];
            let (g, tiled) = (numbers(g, g_layout)?, self.tiled()?);
            let compute = |targets: GradientTargets<'_, f32>| tiled.backward(parts, g, targets);
            return self.written(form, compute);
        }
        for_floats!(q.0, T => {
            let parts = [part::<T>(q)?, part(k)?, part(v)?];
            let (g, general) = (numbers::<T>(g, g_layout)?, self.general()?);
            let compute = |targets: GradientTargets<'_, T>| general.backward(parts, g, targets);
            self.written(form, compute)
        })
    }

    /// Has `compute` write the gradients of queries, keys and values, all elements of the layouts that it is given.
    fn written<T: Number>(
        &self,
        form: Form,
        compute: impl FnOnce(GradientTargets<'_, T>),
    ) -> Result<Vec<Tensor>> {
        let sizes = self.sizes;
        let (width, kv_width) = (sizes.heads * sizes.each, sizes.kv_heads * sizes.each);
        let tensor = |memory: UninitBuffer<T>, positions: usize, width: usize| {
            // SAFETY: `compute` has written all elements of the layouts, which are those of all positions of all rows of the
            // batch, `width` of each.
            #[expect(unsafe_code, reason = "they are written")]
            let numbers = unsafe { memory.written() };
            new_tensor(numbers, &(sizes.batch, positions, width).into())
        };
        let memory = |positions: usize, width: usize| {
            UninitBuffer::<T>::new(sizes.batch * positions * width)
        };
        match form {
            Form::Packed => {
                let width = width + 2 * kv_width;
                let mut all = memory(sizes.queries, width);
                let shared = SharedSlice::new(all.slots());
                compute(([&shared; 3], sizes.packed_layouts()));
                Ok(vec![tensor(all, sizes.queries, width)?])
            }
            Form::Separate => {
                let mut q = memory(sizes.queries, width);
                let [mut k, mut v] = [(); 2].map(|()| memory(sizes.keys, kv_width));
                let shared = [q.slots(), k.slots(), v.slots()].map(SharedSlice::new);
                compute((shared.each_ref(), sizes.separate_layouts()));
                Ok(vec![
                    tensor(q, sizes.queries, width)?,
                    tensor(k, sizes.keys, kv_width)?,
                    tensor(v, sizes.keys, kv_width)?,
                ])
            }
        }
    }

    /// Queries, keys and values within a contiguous tensor that has them side by side.
    fn packed_parts<'a>(
        &self,
        qkv: &'a CpuStorage,
        layout: &Layout,
    ) -> [(&'a CpuStorage, PartLayout); 3] {
        let start = layout.start_offset();
        self.sizes.packed_layouts().map(|part| {
            let start = start + part.start;
            (qkv, PartLayout { start, ..part })
        })
    }
}

/// How queries, keys and values are given.
#[derive(Clone, Copy)]
enum Form {
    Packed,
    Separate,
}

fn part<T: Number>((storage, layout): (&CpuStorage, PartLayout)) -> Result<Part<'_, T>> {
    Ok(Part {
        numbers: T::cpu_storage_as_slice(storage)?,
        layout,
    })
}

impl CustomOp1 for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(self.packed_parts(&whole(storage), layout))
    }

    fn bwd(&self, qkv: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gradient = ready(gradient)?;
        let (guard, layout) = qkv.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let qkv = whole(cpu(&guard)?);
        let parts = self.packed_parts(&qkv, layout);
        let g = (cpu(&gradient_guard)?, gradient_layout);
        Ok(self.backward(parts, g, Form::Packed)?.pop())
    }
}

impl CustomOp3 for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = ((q, q_layout), (k, k_layout), (v, v_layout));
        self.forward([located(q)?, located(k)?, located(v)?])
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let g = (cpu(&gradient_guard)?, gradient_layout);
        let guards = [q, k, v].map(Tensor::storage_and_layout);
        let [of_q, of_k, of_v] = &guards;
        let parts = [
            located((cpu(&of_q.0)?, of_q.1))?,
            located((cpu(&of_k.0)?, of_k.1))?,
            located((cpu(&of_v.0)?, of_v.1))?,
        ];
        let mut gradients = self.backward(parts, g, Form::Separate)?.into_iter();
        let [of_q, of_k, of_v] = [q, k, v].map(|input| hand_over(input, gradients.next()));
        Ok((of_q, of_k, of_v))
    }
}

/// The vectors of a tensor (batch, positions, width) within its storage.
fn located<'a>(
    (storage, layout): (&'a CpuStorage, &Layout),
) -> Result<(&'a CpuStorage, PartLayout)> {
    Ok((storage, PartLayout::of(layout)?))
}

impl AttentionSizes {
    fn output_shape(&self) -> Shape {
        (self.batch, self.queries, self.heads * self.each).into()
    }
}

//! Attention with the scores of a head in memory, for any float type: by general matrix multiplications.
//!
//! For `f64`, for processors without tiles, and for few queries to many keys, of which tiles would be mostly empty.

use std::mem::MaybeUninit;

use super::rotation::Turning;
use super::sizes::{AttentionSizes, Head, HeadPart, Part, PartLayout};
use crate::kernels::fill::{Schedule, SharedSlice, UninitInterleaved, fill_parts};
use crate::kernels::math::{LANES, largest, number, sum};
use crate::kernels::{Matrix, UninitBuffer, multiply_uninit, region, write_all};
use crate::options::{AttentionDropout, AttentionTerms, ROW_STEP, dropped_word};
use crate::storage::Number;
use crate::vectorised;

/// Attention by general matrix multiplications.
pub(super) struct GeneralAttention<'t, T> {
    pub(super) sizes: AttentionSizes,
    pub(super) terms: &'t AttentionTerms,
    pub(super) turning: Option<Turning<'t, T>>,
}

/// Scratch memory of a thread.
struct Scratch<T> {
    weights: UninitBuffer<T>,
    gradients: UninitBuffer<T>,
    /// A product (positions, width of a head).
    product: UninitBuffer<T>,
    turned_queries: Vec<T>,
    turned_keys: Vec<T>,
    /// First key that each query sees, and the one after the last.
    seen: Vec<(usize, usize)>,
}

/// End of what is computed of a row that sees the keys `begin..end`: whole registers.
///
/// A remainder would be computed element by element.
#[inline(always)]
fn rounded((begin, end): (usize, usize), keys: usize) -> usize {
    (begin + (end - begin).next_multiple_of(LANES)).min(keys)
}

vectorised! {
    /// Replaces each row of scores, times `scale`, by its softmax over the visible keys, and the others by 0.
    fn softmax_rows<T: Number>(scores: &mut [T], keys: usize, scale: T, seen: &[(usize, usize)]) {
        for (row, &(begin, end)) in scores.chunks_exact_mut(keys).zip(seen) {
            let computed = rounded((begin, end), keys);
            row[end..computed].fill(T::neg_infinity());
            let inside = &mut row[begin..computed];
            let most = largest(inside);
            for x in inside.iter_mut() {
                *x = ((*x - most) * scale).fast_exp::<FUSED>();
            }
            let size = T::one() / sum([&*inside], |[x]| x);
            for x in inside.iter_mut() {
                *x *= size;
            }
            row[..begin].fill(T::ZERO);
            row[end..].fill(T::ZERO);
        }
    }
}

vectorised! {
    /// Replaces the gradients g of the weights p by those of the scores, p · (g − Σ g · p) · scale.
    fn softmax_gradient<T: Number>(
        p: &[T],
        g: &mut [T],
        keys: usize,
        scale: T,
        seen: &[(usize, usize)],
    ) {
        let rows = p.chunks_exact(keys).zip(g.chunks_exact_mut(keys));
        for ((p, g), &(begin, end)) in rows.zip(seen) {
            let computed = rounded((begin, end), keys);
            g[end..computed].fill(T::ZERO);
            let p = &p[begin..computed];
            let mean = sum([p, &g[begin..computed]], |[p, g]| p * g);
            for (g, &p) in g[begin..computed].iter_mut().zip(p) {
                *g = p * (*g - mean) * scale;
            }
            g[..begin].fill(T::ZERO);
            g[end..].fill(T::ZERO);
        }
    }
}

impl<T: Number> GeneralAttention<'_, T> {
    fn scale(&self) -> T {
        number(self.terms.factor(self.sizes.each))
    }

    fn scratch(&self, with_gradients: bool) -> Scratch<T> {
        let AttentionSizes {
            queries,
            keys,
            each,
            ..
        } = self.sizes;
        Scratch {
            weights: UninitBuffer::new(queries * keys),
            gradients: UninitBuffer::new(if with_gradients { queries * keys } else { 0 }),
            product: UninitBuffer::new(queries.max(keys) * each),
            turned_queries: Vec::new(),
            turned_keys: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Computes the attention weights of a head, (queries, keys), into `slots`, and which keys are seen.
    fn weights<'a>(
        &self,
        head: Head,
        [queries, keys]: [Matrix<'_, T>; 2],
        (slots, seen): (&'a mut UninitBuffer<T>, &mut Vec<(usize, usize)>),
    ) -> &'a mut [T] {
        let counts = (self.sizes.queries, self.sizes.keys);
        seen.clear();
        seen.extend((0..counts.0).map(|query| self.terms.visible.of(head.row, query, counts)));
        let scores = multiply_uninit(slots.slots(), queries, keys.t());
        softmax_rows(scores, counts.1, self.scale(), seen);
        scores
    }

    /// Calls `change(weight, is dropped)` for all visible weights of a head.
    fn each_dropped(
        &self,
        dropout: &AttentionDropout,
        head: Head,
        (weights, seen): (&mut [T], &[(usize, usize)]),
        change: impl Fn(&mut T, bool),
    ) {
        let (threshold, index) = (
            dropout.threshold(),
            head.row * self.sizes.heads + head.of_queries,
        );
        let rows = weights.chunks_exact_mut(self.sizes.keys).zip(seen);
        for (query, (row, &(begin, end))) in rows.enumerate() {
            let (low, high) = dropout.row(index, query);
            for (key, weight) in (begin..end).zip(&mut row[begin..end]) {
                let low = low.wrapping_add((key as u32).wrapping_mul(ROW_STEP));
                change(weight, dropped_word(low, high) < threshold);
            }
        }
    }

    /// Queries and keys of a head, turned on request.
    fn turned<'a>(
        &self,
        head: Head,
        [q, k]: [HeadPart<'a, T>; 2],
        (of_queries, of_keys): (&'a mut Vec<T>, &'a mut Vec<T>),
    ) -> [HeadPart<'a, T>; 2] {
        let each = self.sizes.each;
        match &self.turning {
            None => [q, k],
            Some(turning) => [
                turning.turned(q, head.row, each, of_queries),
                turning.turned(k, head.row, each, of_keys),
            ],
        }
    }

    pub(super) fn forward(&self, [q, k, v]: [Part<'_, T>; 3]) -> Vec<T> {
        let AttentionSizes {
            batch,
            queries,
            keys,
            heads,
            each,
            ..
        } = self.sizes;
        let schedule = Schedule::per_thread(self.sizes.parts(), batch * heads, 1);
        let memory = UninitInterleaved::new([batch, queries, heads, each]);
        fill_parts(schedule, memory, |own, mut y| {
            let mut scratch = self.scratch(false);
            for index in own.clone() {
                let head = self.sizes.head(index);
                let [queries_here, keys_here] = self.turned(
                    head,
                    [
                        q.head(head.row, head.of_queries, each),
                        k.head(head.row, head.of_keys, each),
                    ],
                    (&mut scratch.turned_queries, &mut scratch.turned_keys),
                );
                let factors = [
                    queries_here.matrix(queries, each),
                    keys_here.matrix(keys, each),
                ];
                let memory = (&mut scratch.weights, &mut scratch.seen);
                let weights = self.weights(head, factors, memory);
                if let Some(dropout) = &self.terms.dropout {
                    let factor = number::<T>(dropout.factor());
                    self.each_dropped(
                        dropout,
                        head,
                        (weights, &scratch.seen),
                        |weight, dropped| {
                            *weight = if dropped { T::ZERO } else { *weight * factor };
                        },
                    );
                }
                let weights = Matrix::new(&*weights, queries, keys);
                let values = v.head(head.row, head.of_keys, each).matrix(keys, each);
                let slots = &mut scratch.product.slots()[..queries * each];
                let mixed = multiply_uninit(slots, weights, values);
                y.write_next(|row, y| {
                    write_all(y, mixed[row * each..(row + 1) * each].iter().copied())
                });
            }
            y.finish()
        })
    }

    /// Writes the gradients of queries, keys and values, all elements of these layouts, into `shared`.
    pub(super) fn backward(
        &self,
        [q, k, v]: [Part<'_, T>; 3],
        g: &[T],
        (shared, layouts): ([&SharedSlice<'_, MaybeUninit<T>>; 3], [PartLayout; 3]),
    ) {
        let AttentionSizes {
            batch,
            keys,
            kv_heads,
            each,
            ..
        } = self.sizes;
        let of_outputs = Part {
            numbers: g,
            layout: self.sizes.output_layout(),
        };
        let parts = self.sizes.parts();
        region::run(parts, |part| {
            let mut scratch = self.scratch(true);
            let mut sums = [vec![T::ZERO; keys * each], vec![T::ZERO; keys * each]];
            for index in region::range(batch * kv_heads, 1, part, parts) {
                for (member, head) in self.sizes.served(index).enumerate() {
                    let parts = [
                        q.head(head.row, head.of_queries, each),
                        k.head(head.row, head.of_keys, each),
                        v.head(head.row, head.of_keys, each),
                        of_outputs.head(head.row, head.of_queries, each),
                    ];
                    let [of_queries, of_keys, of_values] =
                        self.head_gradients(head, parts, &mut scratch);
                    let layout = layouts[0].head(head.row, head.of_queries, each);
                    for (row, from) in of_queries.chunks_exact(each).enumerate() {
                        let start = layout.start + row * layout.step;
                        // SAFETY: a head of a row of the batch is in one part only, and these elements are those of its queries at
                        // one position, which no other head has any of.
                        #[expect(unsafe_code, reason = "each head has its own elements")]
                        let slots = unsafe { shared[0].part(start..start + each) };
                        write_all(slots, from.iter().copied());
                    }
                    for (sum, one) in sums.iter_mut().zip([of_keys, of_values]) {
                        add(sum, &one, member > 0);
                    }
                }
                let (row, kv_head) = (index / kv_heads, index % kv_heads);
                for (which, sum) in sums.iter().enumerate() {
                    let layout = layouts[1 + which].head(row, kv_head, each);
                    for (position, from) in sum.chunks_exact(each).enumerate() {
                        let start = layout.start + position * layout.step;
                        // SAFETY: a head of keys of a row of the batch is in one part only, and these elements are those of its keys
                        // or values at one position, which no other head has any of.
                        #[expect(unsafe_code, reason = "each head has its own elements")]
                        let slots = unsafe { shared[1 + which].part(start..start + each) };
                        write_all(slots, from.iter().copied());
                    }
                }
            }
        });
    }

    /// Computes the gradients of a head's queries, keys and values, each (positions, width of a head), from those of its outputs.
    fn head_gradients(
        &self,
        head: Head,
        [q, k, v, g]: [HeadPart<'_, T>; 4],
        scratch: &mut Scratch<T>,
    ) -> [Vec<T>; 3] {
        let AttentionSizes {
            queries,
            keys,
            each,
            ..
        } = self.sizes;
        let memory = (&mut scratch.turned_queries, &mut scratch.turned_keys);
        let [q, k] = self.turned(head, [q, k], memory);
        let (q, k) = (q.matrix(queries, each), k.matrix(keys, each));
        let (v, g) = (v.matrix(keys, each), g.matrix(queries, each));
        let weights = self.weights(head, [q, k], (&mut scratch.weights, &mut scratch.seen));
        let of_scores = multiply_uninit(scratch.gradients.slots(), g, v.t());
        let seen = &scratch.seen;
        if let Some(dropout) = &self.terms.dropout {
            let factor = number::<T>(dropout.factor());
            // The gradients of dropped weights are 0. The weights themselves are dropped below, once softmax has used them.
            self.each_dropped(dropout, head, (of_scores, seen), |gradient, dropped| {
                *gradient = if dropped { T::ZERO } else { *gradient * factor };
            });
        }
        softmax_gradient(weights, of_scores, keys, self.scale(), seen);
        if let Some(dropout) = &self.terms.dropout {
            let factor = number::<T>(dropout.factor());
            self.each_dropped(dropout, head, (weights, seen), |weight, dropped| {
                *weight = if dropped { T::ZERO } else { *weight * factor };
            });
        }
        let of_scores = Matrix::new(&*of_scores, queries, keys);
        let weights = Matrix::new(&*weights, queries, keys);
        let mut product = |positions: usize, left, right| {
            let slots = &mut scratch.product.slots()[..positions * each];
            multiply_uninit(slots, left, right).to_vec()
        };
        let mut gradients = [
            product(queries, of_scores, k),
            product(keys, of_scores.t(), q),
            product(keys, weights.t(), g),
        ];
        if let Some(turning) = &self.turning {
            for gradient in &mut gradients[..2] {
                for (index, vector) in gradient.chunks_exact_mut(each).enumerate() {
                    turning.turn(vector, head.row, index, true);
                }
            }
        }
        gradients
    }
}

/// Adds numbers to sums, or begins them.
fn add<T: Number>(sums: &mut [T], numbers: &[T], adds: bool) {
    if !adds {
        sums.copy_from_slice(numbers);
        return;
    }
    for (sum, &number) in sums.iter_mut().zip(numbers) {
        *sum += number;
    }
}

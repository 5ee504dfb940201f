//! A linear layer of several rows by packed blocks.
//!
//! In the forward pass of a layer with at least as many rows as outputs, the weight is packed once for all threads, and the
//! activation is applied to some rows at a time while they are in cache; with fewer rows the weight is read in place. In the backward pass the activation's gradient
//! and the bias's are computed in one pass, and the products of both matrices in one parallel region.

use super::sizes::LinearSizes;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts, fill_parts_with};
use crate::kernels::{
    BlockScratch, Blocked, Factors, Matrix, PackedRight, Terms, add_blocked, add_rows, map_leaving,
    multiply_blocked, multiply_in_place, multiply_packed_uninit, pays_in_place, region, zeros,
};
use crate::operations::elementwise::KeptValues;
use crate::options::{Function, WeightOrder};

/// Rows processed at once in the forward pass: whole tiles, and few enough that threads finish at about the same time.
const AT_ONCE: usize = 48;

/// Rows of which the bias's gradients are summed first; the sums of these are then added.
const SUMMED: usize = 64;

/// A linear layer by packed blocks.
#[derive(Clone, Copy)]
pub(crate) struct BlockedLinear {
    sizes: LinearSizes,
    threads: usize,
    terms: Terms,
}

impl BlockedLinear {
    /// A layer by packed blocks, where they are supported and pay, whose products are in these terms.
    pub(crate) fn of(sizes: LinearSizes, terms: Terms) -> Option<BlockedLinear> {
        let LinearSizes {
            rows,
            outputs,
            inputs,
            ..
        } = sizes;
        Blocked::pays(rows, inputs, outputs).then(|| BlockedLinear {
            sizes,
            threads: region::parts(2 * rows * outputs * inputs),
            terms,
        })
    }

    /// The layer of some of these rows, at least 16: what it computes of them has the same bits.
    pub(crate) fn of_rows(&self, rows: usize) -> BlockedLinear {
        let sizes = LinearSizes { rows, ..self.sizes };
        BlockedLinear {
            sizes,
            threads: region::parts(2 * rows * sizes.outputs * sizes.inputs),
            terms: self.terms,
        }
    }

    /// Computes the outputs, and the function's derivatives where the backward pass needs them.
    pub(crate) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        function: Option<Function>,
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        let LinearSizes {
            rows,
            outputs,
            inputs,
            order,
        } = self.sizes;
        // `ReLU` is computed with the product, and what it needs for the backward pass are its outputs.
        let rectifies = function == Some(Function::Relu);
        let function = function.filter(|_| !rectifies);
        let left = Matrix::new(x, rows, inputs);
        let right = self.sizes.weight(weight).t();
        if outputs > rows {
            let is_in_rows = order == WeightOrder::OutputsInputs && self.terms == Terms::Singles;
            let mut product = if is_in_rows && pays_in_place(rows, inputs, outputs) {
                multiply_in_place(self.threads, left, right.t(), (bias, rectifies))
            } else {
                let row = bias;
                let product = Blocked::new(Factors { left, right, row })
                    .rectified(rectifies)
                    .in_terms(self.terms);
                let [y] = multiply_blocked(self.threads, [Some(product)]);
                // It was asked for, so it is there.
                y.unwrap_or_default()
            };
            let Some(function) = function else {
                return (product, None);
            };
            let y = map_leaving(&mut product, |x, y| function.keeping_derivatives(x, y));
            return (y, Some(product));
        }
        let right = PackedRight::new(self.threads, right, self.terms);
        let memory = (
            UninitRows::new(rows, outputs),
            UninitRows::new(rows, if function.is_some() { outputs } else { 0 }),
        );
        let schedule = Schedule::of_size(self.threads, rows, AT_ONCE);
        let room = BlockScratch::default;
        let (y, kept) = fill_parts_with(schedule, memory, room, |scratch, rows, (y, kept)| {
            let Some(function) = function else {
                let begin = (bias, rectifies);
                let y = multiply_packed_uninit(y, left, rows, &right, begin, scratch);
                return (y, zeros(kept));
            };
            let begin = (bias, false);
            let kept = multiply_packed_uninit(kept, left, rows, &right, begin, scratch);
            (function.keeping_derivatives(kept, y), kept)
        });
        (y, function.is_some().then_some(kept))
    }

    /// Computes the gradients of the bias (empty if there is none), and those of weight and input where wanted.
    pub(crate) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (g, kept): (&[f32], Option<KeptValues<'_, f32>>),
        [of_weight, of_input]: [bool; 2],
        has_bias: bool,
    ) -> (Vec<f32>, [Option<Vec<f32>>; 2]) {
        let (before, bias_gradient) = self.before(g, kept, has_bias);
        let g = before.as_deref().unwrap_or(g);
        let products = [
            of_weight.then(|| self.weight_product(g, x)),
            of_input.then(|| self.input_product(g, weight)),
        ];
        (bias_gradient, multiply_blocked(self.threads, products))
    }

    /// As [`backward`](Self::backward) of a layer without a function, of rows that follow others: adds to the gradients of bias
    /// (empty if there is none) and weight that those have, with the bits that all rows at once have. The others are a multiple
    /// of [`SUMMED`].
    pub(crate) fn add_backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        g: &[f32],
        (of_bias, of_weight): (&mut [f32], Option<&mut [f32]>),
        of_input: bool,
    ) -> Option<Vec<f32>> {
        if !of_bias.is_empty() {
            self.before_into(g, None, of_bias);
        }
        if let Some(sum) = of_weight {
            add_blocked(self.threads, self.weight_product(g, x), sum);
        }
        let product = of_input.then(|| self.input_product(g, weight));
        let [of_input] = multiply_blocked(self.threads, [product]);
        of_input
    }

    /// The weight's gradient, from those of the outputs and the inputs.
    fn weight_product<'a>(&self, g: &'a [f32], x: &'a [f32]) -> Blocked<'a> {
        let LinearSizes {
            rows,
            outputs,
            inputs,
            ..
        } = self.sizes;
        let (of_output, x) = (Matrix::new(g, rows, outputs), Matrix::new(x, rows, inputs));
        let (left, right) = self.sizes.of_weight(of_output, x);
        let row = None;
        Blocked::new(Factors { left, right, row }).in_terms(self.terms)
    }

    /// The inputs' gradients, from those of the outputs and the weight.
    fn input_product<'a>(&self, g: &'a [f32], weight: &'a [f32]) -> Blocked<'a> {
        let left = Matrix::new(g, self.sizes.rows, self.sizes.outputs);
        let right = self.sizes.weight(weight);
        let row = None;
        Blocked::new(Factors { left, right, row }).in_terms(self.terms)
    }

    /// Computes the gradients of the product, where they aren't those of the outputs, and of the bias, if there is one.
    fn before(
        &self,
        g: &[f32],
        kept: Option<KeptValues<'_, f32>>,
        has_bias: bool,
    ) -> (Option<Vec<f32>>, Vec<f32>) {
        if kept.is_none() && !has_bias {
            return (None, Vec::new());
        }
        let biases = if has_bias { self.sizes.outputs } else { 0 };
        let mut bias_gradient = vec![0.0; biases];
        let before = self.before_into(g, kept, &mut bias_gradient);
        (before, bias_gradient)
    }

    /// As [`before`](Self::before), adding to the gradient of the bias, empty if there is none.
    fn before_into(
        &self,
        g: &[f32],
        kept: Option<KeptValues<'_, f32>>,
        bias_gradient: &mut [f32],
    ) -> Option<Vec<f32>> {
        let LinearSizes { rows, outputs, .. } = self.sizes;
        let biases = bias_gradient.len();
        let schedule = Schedule::of_size(region::parts(8 * g.len()), rows, SUMMED);
        let mut sums = vec![0.0; schedule.chunks() * biases];
        let memory = (
            UninitRows::new(rows, if kept.is_some() { outputs } else { 0 }),
            Rows::per_chunk(&mut sums, biases),
        );
        let (before, ()) = fill_parts(schedule, memory, |own, (before, sums)| {
            let own = own.start * outputs..own.end * outputs;
            let g = &g[own.clone()];
            let Some(kept) = kept else {
                add_rows(sums, g, outputs, 0);
                return (zeros(before), ());
            };
            let before = kept.gradients(&kept.numbers()[own], g, before);
            add_rows(sums, before, outputs, 0);
            (before, ())
        });
        add_rows(bias_gradient, &sums, biases, 0);
        kept.is_some().then_some(before)
    }
}

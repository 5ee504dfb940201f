//! Softmax over the columns of a block's weights, its gradient, and dropout.

use super::blocks::{BLOCK, Block};
use crate::kernels::PANEL;
use crate::kernels::math::Number;
use crate::options::{AttentionDropout, ROW_STEP, dropped_word};
use crate::vectorised;

/// The elements of a panel in one line.
#[inline(always)]
fn line(numbers: &[f32], index: usize) -> [f32; PANEL] {
    let mut line = [0.0; PANEL];
    line.copy_from_slice(&numbers[index * BLOCK..index * BLOCK + PANEL]);
    line
}

vectorised! {
    /// Replaces the columns of a panel of scores, times `scale`, by their softmax.
    ///
    /// Lines are [`BLOCK`] apart. A query sees the lines from its `begins` up to its `ends`; weights of keys that it doesn't see
    /// are 0, all of them if it sees none.
    pub(super) fn softmax_columns(
        scores: &mut [f32],
        lines: usize,
        begins: &[u32; PANEL],
        ends: &[u32; PANEL],
        scale: f32,
    ) {
        // Lines that all queries see.
        let (mut from, mut to) = (0, lines);
        for (&begin, &end) in begins.iter().zip(ends) {
            from = from.max(begin as usize);
            to = to.min(end as usize);
        }
        let mut most = [f32::NEG_INFINITY; PANEL];
        for index in 0..lines {
            let mut scores_here = line(scores, index);
            if index < from || index >= to {
                let key = index as u32;
                for (lane, x) in scores_here.iter_mut().enumerate() {
                    let is_seen = begins[lane] <= key && key < ends[lane];
                    *x = if is_seen { *x } else { f32::NEG_INFINITY };
                }
                scores[index * BLOCK..index * BLOCK + PANEL].copy_from_slice(&scores_here);
            }
            for (most, x) in most.iter_mut().zip(scores_here) {
                // A NaN stays: nothing compares as larger.
                *most = if x > *most || x.is_nan() { x } else { *most };
            }
        }
        for (lane, most) in most.iter_mut().enumerate() {
            *most = if begins[lane] < ends[lane] { *most } else { 0.0 };
        }
        let mut sums = [0.0; PANEL];
        for index in 0..lines {
            let mut line = line(scores, index);
            for lane in 0..PANEL {
                line[lane] = ((line[lane] - most[lane]) * scale).fast_exp::<FUSED>();
                sums[lane] += line[lane];
            }
            scores[index * BLOCK..index * BLOCK + PANEL].copy_from_slice(&line);
        }
        let mut sizes = sums.map(|sum| 1.0 / sum);
        for (lane, size) in sizes.iter_mut().enumerate() {
            *size = if begins[lane] < ends[lane] { *size } else { 0.0 };
        }
        for index in 0..lines {
            let line = &mut scores[index * BLOCK..index * BLOCK + PANEL];
            for (x, size) in line.iter_mut().zip(sizes) {
                *x *= size;
            }
        }
    }
}

vectorised! {
    /// Replaces a panel of the gradients g of the weights p by those of the scores, p · (g − Σ g · p) · scale.
    pub(super) fn softmax_gradient(p: &[f32], g: &mut [f32], lines: usize, scale: f32) {
        let mut means = [0.0; PANEL];
        for index in 0..lines {
            let (p, g) = (line(p, index), line(g, index));
            for lane in 0..PANEL {
                means[lane] += p[lane] * g[lane];
            }
        }
        for index in 0..lines {
            let p = line(p, index);
            let g = &mut g[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                g[lane] = p[lane] * (g[lane] - means[lane]) * scale;
            }
        }
    }
}

vectorised! {
    /// As [`softmax_gradient`], where weights with a negative sign are dropped and the others are to be scaled by `factor`: g are
    /// the gradients of what is left of them, and p is replaced by that.
    pub(super) fn softmax_gradient_dropped(
        p: &mut [f32],
        g: &mut [f32],
        lines: usize,
        scale: f32,
        factor: f32,
    ) {
        let mut means = [0.0; PANEL];
        for index in 0..lines {
            let p = line(p, index);
            let g = &mut g[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                g[lane] = if p[lane].is_sign_negative() { 0.0 } else { g[lane] * factor };
                means[lane] += p[lane].abs() * g[lane];
            }
        }
        for index in 0..lines {
            let p = &mut p[index * BLOCK..index * BLOCK + PANEL];
            let g = &mut g[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                g[lane] = p[lane].abs() * (g[lane] - means[lane]) * scale;
                p[lane] = if p[lane].is_sign_negative() { 0.0 } else { p[lane] * factor };
            }
        }
    }
}

vectorised! {
    /// Replaces dropped weights of a panel by 0, and scales the others by `factor`.
    fn drop_columns(
        weights: &mut [f32],
        lines: usize,
        low: &[u32; PANEL],
        high: &[u32; PANEL],
        threshold: u32,
        factor: f32,
    ) {
        let mut low = *low;
        for index in 0..lines {
            let line = &mut weights[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                let is_dropped = dropped_word(low[lane], high[lane]) < threshold;
                line[lane] = if is_dropped { 0.0 } else { line[lane] * factor };
                low[lane] = low[lane].wrapping_add(ROW_STEP);
            }
        }
    }
}

vectorised! {
    /// Gives dropped weights of a panel a negative sign.
    fn mark_columns(
        weights: &mut [f32],
        lines: usize,
        low: &[u32; PANEL],
        high: &[u32; PANEL],
        threshold: u32,
    ) {
        let mut low = *low;
        for index in 0..lines {
            let line = &mut weights[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                let is_dropped = dropped_word(low[lane], high[lane]) < threshold;
                line[lane] = if is_dropped { -line[lane] } else { line[lane] };
                low[lane] = low[lane].wrapping_add(ROW_STEP);
            }
        }
    }
}

/// Which weights of a block are dropped.
pub(super) struct DroppedColumns {
    /// Words of each query's row.
    low: [u32; BLOCK],
    high: [u32; BLOCK],
    threshold: u32,
    factor: f32,
}

impl DroppedColumns {
    /// Those of the queries of a head from `first` on.
    pub(super) fn of(dropout: &AttentionDropout, head: usize, first: usize) -> DroppedColumns {
        let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
        for (index, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            (*low, *high) = dropout.row(head, first + index);
        }
        DroppedColumns {
            low,
            high,
            threshold: dropout.threshold(),
            factor: dropout.factor() as f32,
        }
    }

    /// The factor of weights that are kept.
    pub(super) fn factor(&self) -> f32 {
        self.factor
    }

    /// Replaces dropped weights by 0 and scales the others.
    pub(super) fn drop_weights(&self, block: &Block, weights: &mut [f32]) {
        for panel in block.panels() {
            let weights = &mut weights[block.line(panel.begin) + panel.start..];
            let (low, high) = self.words(panel.start, panel.begin);
            drop_columns(
                weights,
                panel.keys(),
                &low,
                &high,
                self.threshold,
                self.factor,
            );
        }
    }

    /// Gives dropped weights a negative sign.
    pub(super) fn mark_weights(&self, block: &Block, weights: &mut [f32]) {
        for panel in block.panels() {
            let weights = &mut weights[block.line(panel.begin) + panel.start..];
            let (low, high) = self.words(panel.start, panel.begin);
            mark_columns(weights, panel.keys(), &low, &high, self.threshold);
        }
    }

    /// The words of a panel's queries for a key.
    fn words(&self, start: usize, key: usize) -> ([u32; PANEL], [u32; PANEL]) {
        let step = (key as u32).wrapping_mul(ROW_STEP);
        let low = std::array::from_fn(|lane| self.low[start + lane].wrapping_add(step));
        let high = std::array::from_fn(|lane| self.high[start + lane]);
        (low, high)
    }
}

//! One position of a sequence: gates and state from those of the position before, and the gradients back to them.

use std::array::from_fn;

use crate::kernels::math::{Number, sigmoid};
use crate::vectorised;

/// Slices of this length, one after the other.
#[inline(always)]
fn parts<const N: usize>(all: &[f32], width: usize) -> [&[f32]; N] {
    from_fn(|part| &all[part * width..][..width])
}

/// Slices of this length, one after the other, to be written.
#[inline(always)]
fn parts_mut<const N: usize>(all: &mut [f32], width: usize) -> [&mut [f32]; N] {
    let mut parts = all.chunks_exact_mut(width);
    from_fn(|_| &mut parts.next().unwrap_or_default()[..width])
}

vectorised! {
    /// From what the gates get of the inputs and of the state (each: input, forget, cell, output), the cell and the state, which replace
    /// those before. Keeps the gates and the cell before.
    pub(super) fn lstm(
        of_inputs: &[f32],
        of_state: &[f32],
        kept: &mut [f32],
        cell: &mut [f32],
        state: &mut [f32],
    ) {
        let width = state.len();
        let cell = &mut cell[..width];
        let x: [&[f32]; 4] = parts(of_inputs, width);
        let h: [&[f32]; 4] = parts(of_state, width);
        let [input, forget, new, output, before] = parts_mut(kept, width);
        for at in 0..width {
            input[at] = sigmoid::<FUSED, f32>(x[0][at] + h[0][at]);
            forget[at] = sigmoid::<FUSED, f32>(x[1][at] + h[1][at]);
            new[at] = (x[2][at] + h[2][at]).fast_tanh::<FUSED>();
            output[at] = sigmoid::<FUSED, f32>(x[3][at] + h[3][at]);
            before[at] = cell[at];
            cell[at] = forget[at].times_plus::<FUSED>(cell[at], input[at] * new[at]);
            state[at] = output[at] * cell[at].fast_tanh::<FUSED>();
        }
    }
}

vectorised! {
    /// Gradients of the gates' sums, from that of the state: `g`, of the outputs, plus `of_state`, of the positions after. `of_cell` is
    /// that of the cell, and becomes that of the cell before.
    pub(super) fn lstm_gradients(
        kept: &[f32],
        g: &[f32],
        of_state: &[f32],
        of_cell: &mut [f32],
        of_gates: &mut [f32],
    ) {
        let width = g.len();
        let (of_state, of_cell) = (&of_state[..width], &mut of_cell[..width]);
        let [input, forget, new, output, before] = parts(kept, width);
        let [of_input, of_forget, of_new, of_output] = parts_mut(of_gates, width);
        for at in 0..width {
            let (i, f, n, o) = (input[at], forget[at], new[at], output[at]);
            let shown = f.times_plus::<FUSED>(before[at], i * n).fast_tanh::<FUSED>();
            let of = g[at] + of_state[at];
            let of_all = (of * o).times_plus::<FUSED>(1.0 - shown * shown, of_cell[at]);
            of_cell[at] = of_all * f;
            of_input[at] = of_all * n * (i - i * i);
            of_forget[at] = of_all * before[at] * (f - f * f);
            of_new[at] = of_all * i * (1.0 - n * n);
            of_output[at] = of * shown * (o - o * o);
        }
    }
}

vectorised! {
    /// From what the gates get of the inputs and of the state (each: reset, update, new), the state, which replaces the one before. Keeps
    /// the gates and what the new one gets of the state.
    pub(super) fn gru(of_inputs: &[f32], of_state: &[f32], kept: &mut [f32], state: &mut [f32]) {
        let width = state.len();
        let x: [&[f32]; 3] = parts(of_inputs, width);
        let h: [&[f32]; 3] = parts(of_state, width);
        let [reset, update, new, remembered] = parts_mut(kept, width);
        for at in 0..width {
            reset[at] = sigmoid::<FUSED, f32>(x[0][at] + h[0][at]);
            update[at] = sigmoid::<FUSED, f32>(x[1][at] + h[1][at]);
            remembered[at] = h[2][at];
            new[at] = reset[at].times_plus::<FUSED>(h[2][at], x[2][at]).fast_tanh::<FUSED>();
            state[at] = update[at].times_plus::<FUSED>(state[at] - new[at], new[at]);
        }
    }
}

vectorised! {
    /// Gradients of what the gates get of the inputs and of the state, from that of the state after: `g`, of the outputs, plus `of_state`,
    /// of the positions after. This becomes what the state before gets directly.
    pub(super) fn gru_gradients(
        kept: &[f32],
        before: &[f32],
        g: &[f32],
        of_state: &mut [f32],
        of_inputs: &mut [f32],
        of_states: &mut [f32],
    ) {
        let width = g.len();
        let (before, of_state) = (&before[..width], &mut of_state[..width]);
        let [reset, update, new, remembered] = parts(kept, width);
        let [reset_of_input, update_of_input, new_of_input] = parts_mut(of_inputs, width);
        let [reset_of_state, update_of_state, new_of_state] = parts_mut(of_states, width);
        for at in 0..width {
            let (r, u, n) = (reset[at], update[at], new[at]);
            let of = g[at] + of_state[at];
            let of_new = of * (1.0 - u) * (1.0 - n * n);
            let of_update = of * (before[at] - n) * (u - u * u);
            let of_reset = of_new * remembered[at] * (r - r * r);
            (reset_of_input[at], update_of_input[at], new_of_input[at]) = (of_reset, of_update, of_new);
            (reset_of_state[at], update_of_state[at], new_of_state[at]) = (of_reset, of_update, of_new * r);
            of_state[at] = of * u;
        }
    }
}

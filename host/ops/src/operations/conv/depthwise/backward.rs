//! Gradients of a depthwise convolution.

use super::phases::copy_line;
use super::taps::{BLOCK, add_products, correlate};
use super::{Conv, Depthwise};
use crate::kernels::fill::{Schedule, UninitRows, fill_parts_with};
use crate::kernels::{add_rows, write_rows, zeros};
use crate::operations::conv::after::{Scratch, plane_sum};

/// A thread's scratch memory.
struct RoomBack {
    inputs: Vec<f32>,
    after: Scratch<f32>,
    /// Gradients of a group's outputs, each in lines as long as a phase's, after as many zeros as a tap's largest offset.
    of_outputs: Vec<f32>,
    /// Gradients of a plane's phases.
    of_phases: Vec<f32>,
}

/// What the gradient of a phase is computed from: offsets in [`RoomBack::of_outputs`], and the indices of the weights
/// they are multiplied by.
#[derive(Clone, Default)]
struct PhaseTaps {
    offsets: Vec<usize>,
    weights: Vec<usize>,
}

impl Depthwise {
    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(in crate::operations::conv) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let Conv { image, groups, .. } = self.conv;
        let (outputs, windows) = (self.outputs, self.windows());
        let (images, inputs) = (self.conv.batch * groups, image.height * image.width);
        let kept = outputs * self.conv.kept(self.after);
        let offsets = self.phases.offsets(image.window);
        let (taps, phase_size) = (offsets.len(), self.phases.size.next_multiple_of(BLOCK));
        let (margin, phase_taps) = self.phase_taps(phase_size);
        let each = margin + phase_size;
        // Sums over some images each: of the weight's gradient and of the bias's.
        let schedule = Schedule::in_chunks(self.conv.parts(), images, groups);
        let size = weight.len() + self.conv.outputs;
        let memory = (
            UninitRows::new(images, if of_input { inputs } else { 0 }),
            UninitRows::per_chunk(schedule.chunks(), size),
        );
        let room = || RoomBack {
            inputs: self.phases.room(),
            after: Scratch::new(self.after, outputs, (image.rows, image.columns)),
            of_outputs: vec![0.0; outputs * each],
            of_phases: vec![
                0.0;
                if of_input {
                    phase_taps.len() * phase_size
                } else {
                    0
                }
            ],
        };
        let (x_gradient, sums) = fill_parts_with(schedule, memory, room, |room, images, parts| {
            let (x_gradient, sums) = parts;
            let sums = zeros(sums);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let group = index % groups;
                self.phases
                    .fill(&x[index * inputs..][..inputs], &mut room.inputs);
                let own = index * kept..(index + 1) * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let sides = (image.rows, image.columns);
                let (y, g) = (&y[own.clone()], &g[own]);
                let g = self.after.gradient(g, y, squares, sides, &mut room.after);
                for (output, g) in g.chunks_exact(windows).enumerate() {
                    let channel = group * outputs + output;
                    let to = &mut room.of_outputs[output * each + margin..][..self.length()];
                    let lines = to.chunks_exact_mut(self.phases.width);
                    for (to, g) in lines.zip(g.chunks_exact(image.columns)) {
                        copy_line(g, to);
                    }
                    let sums = &mut weight_sums[channel * taps..][..taps];
                    add_products(to, &room.inputs, &offsets, sums);
                    bias_sums[channel] += plane_sum(g);
                }
                if !of_input {
                    return zeros(slots);
                }
                let weight = &weight[group * outputs * taps..][..outputs * taps];
                let phases = room.of_phases.chunks_exact_mut(phase_size);
                for (PhaseTaps { offsets, weights }, phase) in phase_taps.iter().zip(phases) {
                    let factors: Vec<f32> = weights.iter().map(|&index| weight[index]).collect();
                    correlate(&room.of_outputs, offsets, &factors, phase);
                }
                self.phases.plane(&room.of_phases, phase_size, slots)
            });
            (x_gradient, sums)
        });
        let mut totals = vec![0.0; size];
        add_rows(&mut totals, &sums, size, 0);
        let bias_gradient = totals.split_off(weight.len());
        [x_gradient, totals, bias_gradient]
    }

    /// The largest offset of a tap, and what each phase's gradient is computed from.
    ///
    /// A tap sees the element at p + offset of its phase in the window at p, so that element's gradient has the tap's
    /// weight times the gradient of the output at p.
    fn phase_taps(&self, phase_size: usize) -> (usize, Vec<PhaseTaps>) {
        let taps = self.phases.taps(self.conv.image.window);
        let margin = taps.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
        let mut phases = vec![PhaseTaps::default(); self.phases.count()];
        for output in 0..self.outputs {
            for (tap, &(phase, offset)) in taps.iter().enumerate() {
                let start = output * (margin + phase_size) + margin - offset;
                phases[phase].offsets.push(start);
                phases[phase].weights.push(output * taps.len() + tap);
            }
        }
        (margin, phases)
    }
}

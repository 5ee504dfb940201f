//! Sums on the host: gradients are copied there, and the run's transport moves them.

use bytemuck::Pod;
use candle_core::{Device, Result, Storage, Tensor, WithDType, bail};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use sconce_ops::device::copy_to_host;
use sconce_ops::pieces::AddedRange;

use super::layout::Layout;
use super::{NodeNote, SumError};
use crate::gradients::{Gradients, TreeNode};
use crate::team::{Team, TeamError};

/// Memory for sums of gradients of one type, kept from one update to the next.
#[derive(Debug, Default)]
pub(super) struct HostBuffers<T> {
    send: Vec<T>,
    receive: Vec<T>,
    sum: Vec<T>,
    send_halved: Vec<bf16>,
    receive_halved: Vec<bf16>,
}

/// An element type whose sums are computed.
pub(super) trait Element: WithDType + Pod + std::ops::AddAssign + Default {
    /// Writes the elements as `bf16`.
    fn halve(from: &[Self], to: &mut [bf16]);
    /// Reads elements from `bf16`.
    fn double(from: &[bf16], to: &mut [Self]);
}

impl Element for f32 {
    fn halve(from: &[f32], to: &mut [bf16]) {
        to.convert_from_f32_slice(from);
    }

    fn double(from: &[bf16], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
}

impl Element for f64 {
    fn halve(from: &[f64], to: &mut [bf16]) {
        to.convert_from_f64_slice(from);
    }

    fn double(from: &[bf16], to: &mut [f64]) {
        from.convert_to_f64_slice(to);
    }
}

impl<T: Element> HostBuffers<T> {
    /// Sums the gradients of a layout, and writes them to `sum`.
    pub(super) fn sum(
        &mut self,
        team: &Team,
        layout: &Layout,
        own: &[(TreeNode, Gradients)],
        all: &[Vec<NodeNote>],
        is_halved: bool,
        sum: &mut Gradients,
    ) -> std::result::Result<(), SumError> {
        self.send.resize(layout.sent(), T::default());
        for (node, (_, gradients)) in own.iter().enumerate() {
            self.put(layout, gradients, node)?;
        }
        self.receive.resize(layout.received(), T::default());
        self.exchange(team, &layout.send_at, &layout.receive_at, is_halved)?;
        let length = layout.own.len();
        add_nodes(&layout.additions(all), &mut self.receive, length);
        self.sum.resize(layout.length(), T::default());
        if let (Some(place), Some(found)) = (
            self.sum.get_mut(layout.own.clone()),
            self.receive.get(..length),
        ) {
            place.copy_from_slice(found);
        }
        self.collect(team, &layout.pieces, is_halved)?;
        for segment in &layout.segments {
            let elements = self.sum.get(segment.begin..segment.end).unwrap_or_default();
            let tensor = Tensor::from_slice(elements, segment.shape.clone(), &Device::Cpu)?;
            sum.set(segment.parameter, tensor);
        }
        Ok(())
    }

    /// Writes the gradients of this rank's node number `node` to the parts of all ranks.
    fn put(&mut self, layout: &Layout, gradients: &Gradients, node: usize) -> Result<()> {
        for segment in &layout.segments {
            let Some(gradient) = gradients.at(segment.parameter) else {
                // Whatever is sent in its place is not added.
                continue;
            };
            let gradient = copy_to_host(&gradient.contiguous()?)?;
            let (storage, layout_of_gradient) = gradient.storage_and_layout();
            let (Storage::Cpu(storage), Some((first, last))) =
                (&*storage, layout_of_gradient.contiguous_offsets())
            else {
                bail!("a gradient is not in this machine's memory");
            };
            let elements = T::cpu_storage_as_slice(storage)?;
            let elements = elements.get(first..last).unwrap_or_default();
            for part in layout.parts(segment, node) {
                if let (Some(to), Some(from)) = (
                    self.send.get_mut(part.to..part.to + part.length),
                    elements.get(part.from..part.from + part.length),
                ) {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        team: &Team,
        send_at: &[usize],
        receive_at: &[usize],
        is_halved: bool,
    ) -> std::result::Result<(), TeamError> {
        if is_halved {
            self.send_halved.resize(self.send.len(), bf16::ZERO);
            self.receive_halved.resize(self.receive.len(), bf16::ZERO);
            T::halve(&self.send, &mut self.send_halved);
            let send = bytemuck::cast_slice(&self.send_halved);
            let receive = bytemuck::cast_slice_mut(&mut self.receive_halved);
            team.exchange(
                send,
                &in_bytes::<bf16>(send_at),
                receive,
                &in_bytes::<bf16>(receive_at),
            )?;
            T::double(&self.receive_halved, &mut self.receive);
            return Ok(());
        }
        team.exchange(
            bytemuck::cast_slice(&self.send),
            &in_bytes::<T>(send_at),
            bytemuck::cast_slice_mut(&mut self.receive),
            &in_bytes::<T>(receive_at),
        )
    }

    fn collect(
        &mut self,
        team: &Team,
        pieces: &[usize],
        is_halved: bool,
    ) -> std::result::Result<(), TeamError> {
        if is_halved {
            self.send_halved.resize(self.sum.len(), bf16::ZERO);
            T::halve(&self.sum, &mut self.send_halved);
            let data = bytemuck::cast_slice_mut(&mut self.send_halved);
            team.collect(data, &in_bytes::<bf16>(pieces))?;
            T::double(&self.send_halved, &mut self.sum);
            return Ok(());
        }
        let data = bytemuck::cast_slice_mut(&mut self.sum);
        team.collect(data, &in_bytes::<T>(pieces))
    }
}

/// Adds nodes of `length` elements each; the sum is in the first.
fn add_nodes<T: Element>(ranges: &[AddedRange], data: &mut [T], length: usize) {
    for AddedRange { range, additions } in ranges {
        for addition in additions {
            // The sum lies before what is added.
            let at = (addition.added * length).min(data.len());
            let (before, after) = data.split_at_mut(at);
            let start = addition.sum * length;
            let (Some(sums), Some(addends)) = (
                before.get_mut(start + range.start..start + range.end),
                after.get(range.clone()),
            ) else {
                continue;
            };
            if addition.is_first {
                sums.copy_from_slice(addends);
                continue;
            }
            for (sum, addend) in sums.iter_mut().zip(addends) {
                *sum += *addend;
            }
        }
    }
}

fn in_bytes<T>(at: &[usize]) -> Vec<usize> {
    at.iter().map(|at| at * size_of::<T>()).collect()
}

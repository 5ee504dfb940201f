//! Sums gradients over all ranks, along the tree of [`gradients`](crate::gradients).
//!
//! Each rank owns a piece of the elements: it receives the nodes of all ranks for its piece, adds them in the tree's
//! order, and sends the sum to all. That moves the bytes of a ring, and the order of additions does not depend on how
//! the batches were divided among the ranks.

use bytemuck::Pod;
use candle_core::{DType, Device, Result, Shape, Storage, Tensor, WithDType, bail};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use sconce_ops::device::copy_to_host;
use serde::{Deserialize, Serialize};

use super::{Team, TeamError};
use crate::gradients::{Gradients, TreeNode, additions};
use crate::parameters::Parameters;

/// A node of a rank, and which parameters have a gradient in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNote {
    level: u32,
    index: u64,
    /// One bit for each parameter, the first in the lowest bit.
    present: Vec<u8>,
}

impl NodeNote {
    /// Describes a node.
    pub fn of(node: TreeNode, gradients: &Gradients, count: usize) -> NodeNote {
        let mut present = vec![0_u8; count.div_ceil(8)];
        for index in 0..count {
            if gradients.at(index).is_some()
                && let Some(byte) = present.get_mut(index / 8)
            {
                *byte |= 1 << (index % 8);
            }
        }
        NodeNote {
            level: node.level(),
            index: node.index(),
            present,
        }
    }

    fn has(&self, parameter: usize) -> bool {
        let byte = self.present.get(parameter / 8).copied().unwrap_or_default();
        byte >> (parameter % 8) & 1 == 1
    }
}

/// Reason why gradients can't be summed.
#[derive(Debug, thiserror::Error)]
pub enum SumError {
    /// The ranks can't go on together.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Tensors can't be read or made.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Sums gradients over all ranks; keeps its buffers from one update to the next.
#[derive(Debug, Default)]
pub struct Summation {
    singles: Buffers<f32>,
    doubles: Buffers<f64>,
    /// Whether gradients are `bf16` on their way.
    is_halved: bool,
}

#[derive(Debug, Default)]
struct Buffers<T> {
    send: Vec<T>,
    receive: Vec<T>,
    sum: Vec<T>,
    send_halved: Vec<bf16>,
    receive_halved: Vec<bf16>,
}

/// A parameter's elements among those of all summed gradients.
struct Segment {
    parameter: usize,
    begin: usize,
    end: usize,
    shape: Shape,
}

impl Summation {
    /// With `is_halved`, gradients are `bf16` on their way, and results depend on the number of ranks.
    pub fn new(is_halved: bool) -> Summation {
        Summation {
            is_halved,
            ..Summation::default()
        }
    }

    /// The sum of the nodes of all ranks; `None` if there are none. `own` are this rank's nodes, `all` the notes of every
    /// rank's, its own included.
    ///
    /// # Errors
    ///
    /// If the ranks can't go on together, or gradients are of another type than `f32` and `f64`.
    pub fn sum(
        &mut self,
        team: &Team,
        parameters: &Parameters,
        own: &[(TreeNode, Gradients)],
        all: &[Vec<NodeNote>],
    ) -> std::result::Result<Option<Gradients>, SumError> {
        if all.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let mut sum = Gradients::none(parameters);
        let segments = |dtype| segments(parameters, all, dtype);
        let singles = segments(DType::F32);
        let doubles = segments(DType::F64);
        let wire = self.is_halved;
        self.singles.sum(team, &singles, own, all, wire, &mut sum)?;
        self.doubles
            .sum(team, &doubles, own, all, false, &mut sum)?;
        if !parameters.device().is_cpu() {
            for index in 0..parameters.len() {
                if let Some(gradient) = sum.at(index).cloned() {
                    sum.set(index, gradient.to_device(parameters.device())?);
                }
            }
        }
        Ok(Some(sum))
    }

    /// The parameters whose gradients can't be summed over ranks, because of their type.
    pub fn unfit(parameters: &Parameters) -> Option<(&str, DType)> {
        let mut trained = parameters.iter().filter(|entry| entry.is_trainable());
        let unfit =
            trained.find(|entry| !matches!(entry.tensor().dtype(), DType::F32 | DType::F64))?;
        Some((unfit.name(), unfit.tensor().dtype()))
    }
}

/// The parameters of a type that have a gradient in any node.
fn segments(parameters: &Parameters, all: &[Vec<NodeNote>], dtype: DType) -> Vec<Segment> {
    let mut found = Vec::new();
    let mut begin = 0;
    for (parameter, entry) in parameters.iter().enumerate() {
        let tensor = entry.tensor();
        let is_present = || all.iter().flatten().any(|node| node.has(parameter));
        if tensor.dtype() == dtype && is_present() {
            let end = begin + tensor.elem_count();
            found.push(Segment {
                parameter,
                begin,
                end,
                shape: tensor.shape().clone(),
            });
            begin = end;
        }
    }
    found
}

/// An element type whose sums are computed.
trait Element: WithDType + Pod + std::ops::AddAssign + Default {
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

impl<T: Element> Buffers<T> {
    fn sum(
        &mut self,
        team: &Team,
        segments: &[Segment],
        own: &[(TreeNode, Gradients)],
        all: &[Vec<NodeNote>],
        is_halved: bool,
        sum: &mut Gradients,
    ) -> std::result::Result<(), SumError> {
        let Some(last) = segments.last() else {
            return Ok(());
        };
        let pieces = pieces(last.end, team.size());
        let lengths: Vec<usize> = pieces.windows(2).map(|piece| piece[1] - piece[0]).collect();
        // Part after part: to each rank its piece of each of this rank's nodes.
        let send_at = offsets(lengths.iter().map(|length| length * own.len()));
        self.send
            .resize(send_at.last().copied().unwrap_or_default(), T::default());
        for (place, (_, gradients)) in own.iter().enumerate() {
            self.put(segments, gradients, &pieces, &lengths, &send_at, place)?;
        }
        let mine = lengths.get(team.rank()).copied().unwrap_or_default();
        let receive_at = offsets(all.iter().map(|nodes| nodes.len() * mine));
        let received = receive_at.last().copied().unwrap_or_default();
        self.receive.resize(received, T::default());
        self.exchange(team, &send_at, &receive_at, is_halved)?;
        let begin = pieces.get(team.rank()).copied().unwrap_or_default();
        add_nodes(segments, all, begin, &mut self.receive, mine);
        self.sum.resize(last.end, T::default());
        if let (Some(place), Some(found)) = (
            self.sum.get_mut(begin..begin + mine),
            self.receive.get(..mine),
        ) {
            place.copy_from_slice(found);
        }
        self.collect(team, &pieces, is_halved)?;
        for segment in segments {
            let elements = self.sum.get(segment.begin..segment.end).unwrap_or_default();
            let tensor = Tensor::from_slice(elements, segment.shape.clone(), &Device::Cpu)?;
            sum.set(segment.parameter, tensor);
        }
        Ok(())
    }

    /// Writes a node's gradients to the parts of all ranks.
    fn put(
        &mut self,
        segments: &[Segment],
        gradients: &Gradients,
        pieces: &[usize],
        lengths: &[usize],
        send_at: &[usize],
        place: usize,
    ) -> Result<()> {
        for segment in segments {
            let Some(gradient) = gradients.at(segment.parameter) else {
                // Whatever is sent in its place is not added.
                continue;
            };
            let gradient = copy_to_host(&gradient.contiguous()?)?;
            let (storage, layout) = gradient.storage_and_layout();
            let (Storage::Cpu(storage), Some((first, last))) =
                (&*storage, layout.contiguous_offsets())
            else {
                bail!("a gradient is not in this machine's memory");
            };
            let elements = T::cpu_storage_as_slice(storage)?;
            let elements = elements.get(first..last).unwrap_or_default();
            let parts = pieces.windows(2).zip(lengths).zip(send_at);
            for ((piece, length), part) in parts {
                let (begin, end) = (piece[0].max(segment.begin), piece[1].min(segment.end));
                if begin >= end {
                    continue;
                }
                let at = part + place * length + begin - piece[0];
                if let (Some(to), Some(from)) = (
                    self.send.get_mut(at..at + end - begin),
                    elements.get(begin - segment.begin..end - segment.begin),
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

/// Adds the nodes of all ranks, `length` elements each that begin at the element `begin` of all; the sum is in the first.
fn add_nodes<T: Element>(
    segments: &[Segment],
    notes: &[Vec<NodeNote>],
    begin: usize,
    data: &mut [T],
    length: usize,
) {
    let notes: Vec<&NodeNote> = notes.iter().flatten().collect();
    let places: Vec<TreeNode> = (notes.iter())
        .filter_map(|note| TreeNode::new(note.level, note.index))
        .collect();
    let order = additions(&places);
    for segment in segments {
        let from = segment.begin.max(begin);
        let to = segment.end.min(begin + length);
        if from >= to {
            continue;
        }
        let range = from - begin..to - begin;
        let mut present: Vec<bool> = notes
            .iter()
            .map(|note| note.has(segment.parameter))
            .collect();
        for &(sum, added) in &order {
            let (Some(&is_there), Some(&is_added)) = (present.get(sum), present.get(added)) else {
                continue;
            };
            if !is_added {
                continue;
            }
            // `sum` lies before `added`.
            let (before, after) = data.split_at_mut((added * length).min(data.len()));
            let start = sum * length;
            let (Some(sums), Some(addends)) = (
                before.get_mut(start + range.start..start + range.end),
                after.get(range.clone()),
            ) else {
                continue;
            };
            if is_there {
                for (sum, addend) in sums.iter_mut().zip(addends) {
                    *sum += *addend;
                }
            } else {
                sums.copy_from_slice(addends);
                if let Some(place) = present.get_mut(sum) {
                    *place = true;
                }
            }
        }
    }
}

/// Where each rank's piece of `count` elements begins, and where the last one ends.
fn pieces(count: usize, size: usize) -> Vec<usize> {
    (0..=size)
        .map(|rank| count / size * rank + (count % size).min(rank))
        .collect()
}

fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut at = vec![0];
    for length in lengths {
        at.push(at.last().copied().unwrap_or_default() + length);
    }
    at
}

fn in_bytes<T>(at: &[usize]) -> Vec<usize> {
    at.iter().map(|at| at * size_of::<T>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::on_ranks;

    /// Gradients of a batch, irregular enough that the order of additions shows in the sums.
    fn gradients(parameters: &Parameters, batch: u64) -> Gradients {
        let mut gradients = Gradients::none(parameters);
        for (index, entry) in parameters.iter().enumerate() {
            // One parameter has no gradient in every third batch, nor has any in the eighth.
            if index == 1 && batch % 3 == 1 {
                continue;
            }
            let count = entry.tensor().elem_count();
            let purpose = format!("gradient {index}");
            let mut stream = crate::random::stream(3, &purpose, 0, batch);
            let numbers: Vec<f64> = (0..count)
                .map(|_| stream.normal() * 10.0_f64.powf(stream.uniform(-4.0, 4.0)))
                .collect();
            let tensor = Tensor::new(numbers, &Device::Cpu)
                .and_then(|tensor| tensor.to_dtype(entry.tensor().dtype()))
                .and_then(|tensor| tensor.reshape(entry.tensor().shape()));
            gradients.set(index, tensor.expect("a gradient"));
        }
        gradients
    }

    fn parameters() -> Parameters {
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        for (name, shape) in [("a", &[7, 3][..]), ("b", &[5]), ("c", &[64])] {
            let made = parameters
                .scope("m")
                .parameter(name, shape, crate::init::Init::ONES);
            made.expect("a parameter");
        }
        parameters
    }

    /// The bits of the sum of an update's batches on this many ranks.
    fn summed(size: usize, batches: u64, is_halved: bool) -> Vec<Vec<u32>> {
        let sums = on_ranks(size, move |team| {
            let parameters = parameters();
            let block = batches.div_ceil(team.size() as u64);
            let begin = block * team.rank() as u64;
            let mut tree = crate::gradients::GradientTree::default();
            for batch in (begin..(begin + block).min(batches)).filter(|batch| *batch != 7) {
                tree.add(batch, gradients(&parameters, batch))
                    .expect("a sum");
            }
            let own = tree.take();
            let notes: Vec<NodeNote> = (own.iter())
                .map(|(node, gradients)| NodeNote::of(*node, gradients, parameters.len()))
                .collect();
            let said = postcard::to_allocvec(&notes).expect("bytes");
            let heard = team.hear(
                super::super::Purpose::Update,
                super::super::Said {
                    bytes: &said,
                    ..Default::default()
                },
            );
            let heard = heard.expect("all are there");
            let all: Vec<Vec<NodeNote>> = (0..team.size())
                .map(|rank| postcard::from_bytes(heard.of(rank)).expect("notes"))
                .collect();
            let mut summation = Summation::new(is_halved);
            let sum = summation.sum(&team, &parameters, &own, &all);
            let sum = sum.expect("a sum").expect("gradients");
            let bits = (0..parameters.len())
                .filter_map(|index| sum.at(index))
                .flat_map(|tensor| {
                    let numbers: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
                    numbers.into_iter().map(f32::to_bits)
                });
            bits.collect::<Vec<u32>>()
        });
        for sum in &sums {
            assert_eq!(*sum, sums[0], "all ranks have the same");
        }
        sums
    }

    #[test]
    fn sums_have_the_same_bits_on_any_number_of_ranks() {
        for batches in [1, 2, 5, 8, 12, 13] {
            let mut tree = crate::gradients::GradientTree::default();
            let parameters = parameters();
            for batch in (0..batches).filter(|batch| *batch != 7) {
                tree.add(batch, gradients(&parameters, batch))
                    .expect("a sum");
            }
            let alone = tree.take_sum().expect("a sum").expect("gradients");
            let alone: Vec<u32> = (0..parameters.len())
                .filter_map(|index| alone.at(index))
                .flat_map(|tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap())
                .map(f32::to_bits)
                .collect();
            for size in [1, 2, 3, 4, 5, 8] {
                assert_eq!(
                    summed(size, batches, false)[0],
                    alone,
                    "{batches} on {size}"
                );
            }
        }
    }

    #[test]
    fn halved_gradients_have_about_the_same_sum() {
        let exact = &summed(3, 6, false)[0];
        let halved = &summed(3, 6, true)[0];
        let mut largest = 0.0_f32;
        for (exact, halved) in exact.iter().zip(halved) {
            let (exact, halved) = (f32::from_bits(*exact), f32::from_bits(*halved));
            largest = largest.max((exact - halved).abs() / exact.abs().max(1.0));
        }
        assert!(largest > 0.0 && largest < 0.05, "{largest}");
    }
}

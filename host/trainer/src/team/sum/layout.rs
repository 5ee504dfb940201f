//! Where gradients are in what ranks send each other, and in which order they are added: the same on the host and on GPUs.

use std::ops::Range;

use candle_core::{DType, Shape};
use sconce_ops::pieces::{AddedRange, Addition};

use super::NodeNote;
use crate::gradients::{TreeNode, additions};
use crate::parameters::Parameters;

/// The gradients of one type of elements, end to end, cut into as many pieces as there are ranks.
///
/// A rank sends to each rank that one's piece of each of its own nodes. It receives its own piece of the nodes of all ranks, in
/// the order of ranks and nodes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The parameters with a gradient in any node, in the order of the registry.
    pub(super) segments: Vec<Segment>,
    /// Where each rank's piece begins, and where the last one ends.
    pub(super) pieces: Vec<usize>,
    /// Where what is sent to each rank begins, and where the last of it ends.
    pub(super) send_at: Vec<usize>,
    /// Where what is received of each rank begins, and where the last of it ends.
    pub(super) receive_at: Vec<usize>,
    /// This rank's piece.
    pub(super) own: Range<usize>,
}

/// A parameter's elements among those of all summed gradients.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) parameter: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) shape: Shape,
}

/// A part of a gradient that is sent to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentPart {
    /// Its first element in the gradient.
    pub(super) from: usize,
    /// Its first element in what is sent.
    pub(super) to: usize,
    pub(super) length: usize,
}

impl Layout {
    /// The layout on the rank `rank` of `size`, of gradients of this type; `None` if no node has any. `all` are the notes of every
    /// rank's nodes.
    pub(super) fn of(
        parameters: &Parameters,
        all: &[Vec<NodeNote>],
        dtype: DType,
        (rank, size): (usize, usize),
    ) -> Option<Layout> {
        let segments = segments(parameters, all, dtype);
        let pieces = pieces(segments.last()?.end, size);
        let at = |rank: usize| pieces.get(rank).copied().unwrap_or_default();
        let own = at(rank)..at(rank + 1);
        let nodes = all.get(rank).map_or(0, Vec::len);
        Some(Layout {
            send_at: offsets(pieces.windows(2).map(|piece| (piece[1] - piece[0]) * nodes)),
            receive_at: offsets(all.iter().map(|nodes| nodes.len() * own.len())),
            own,
            segments,
            pieces,
        })
    }

    /// Number of elements of all gradients.
    pub(super) fn length(&self) -> usize {
        self.pieces.last().copied().unwrap_or_default()
    }

    /// Number of elements that this rank sends.
    pub(super) fn sent(&self) -> usize {
        self.send_at.last().copied().unwrap_or_default()
    }

    /// Number of elements that this rank receives.
    pub(super) fn received(&self) -> usize {
        self.receive_at.last().copied().unwrap_or_default()
    }

    /// The parts of a segment's gradient in this rank's node number `node`, one for each rank whose piece has any of it.
    pub(super) fn parts<'a>(
        &'a self,
        segment: &'a Segment,
        node: usize,
    ) -> impl Iterator<Item = SentPart> + 'a {
        let pieces = self.pieces.windows(2).zip(&self.send_at);
        pieces.filter_map(move |(piece, send_at)| {
            let (begin, end) = (piece[0].max(segment.begin), piece[1].min(segment.end));
            (begin < end).then(|| SentPart {
                from: begin - segment.begin,
                to: send_at + node * (piece[1] - piece[0]) + begin - piece[0],
                length: end - begin,
            })
        })
    }

    /// How the nodes received are added, along the tree: by ranges of this rank's piece, since not every node has a gradient of
    /// each parameter. The sum is in the first node's elements.
    pub(super) fn additions(&self, all: &[Vec<NodeNote>]) -> Vec<AddedRange> {
        let notes: Vec<&NodeNote> = all.iter().flatten().collect();
        let tree: Vec<TreeNode> = notes.iter().filter_map(|note| note.node()).collect();
        let order = additions(&tree);
        let mut found: Vec<AddedRange> = Vec::new();
        for segment in &self.segments {
            let begin = segment.begin.max(self.own.start);
            let end = segment.end.min(self.own.end);
            if begin >= end {
                continue;
            }
            let range = begin - self.own.start..end - self.own.start;
            let additions = of_present(&order, &notes, segment.parameter);
            match found.last_mut() {
                // The usual case: all nodes have a gradient of all parameters.
                Some(last) if last.additions == additions => last.range.end = range.end,
                _ => found.push(AddedRange { range, additions }),
            }
        }
        found
    }
}

/// The additions of a parameter, which some nodes may not have: what is added to nothing is copied.
fn of_present(order: &[(usize, usize)], notes: &[&NodeNote], parameter: usize) -> Vec<Addition> {
    let mut present: Vec<bool> = notes.iter().map(|note| note.has(parameter)).collect();
    let mut found = Vec::new();
    for &(sum, added) in order {
        let is_added = present.get(added).is_some_and(|is_there| *is_there);
        if is_added && let Some(is_there) = present.get_mut(sum) {
            found.push(Addition {
                sum,
                added,
                is_first: !*is_there,
            });
            *is_there = true;
        }
    }
    found
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

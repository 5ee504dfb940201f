//! A head's vectors as the factors of products: elements as they are, or words of pairs of them ([`Terms`]).

use super::blocks::BLOCK;
use crate::kernels::{PANEL, Terms, across, along, transpose};
use crate::operations::attention::sizes::HeadPart;

/// Vectors as a matrix (positions, words of the width): themselves, or in this memory.
pub(super) fn along_width<'a>(
    part: HeadPart<'a, f32>,
    (positions, each): (usize, usize),
    terms: Terms,
    memory: &'a mut Vec<f32>,
) -> HeadPart<'a, f32> {
    if terms == Terms::Singles {
        return part;
    }
    let words = terms.words(each);
    memory.resize(positions * words, 0.0);
    along(part.numbers, part.step, (positions, each), words, memory);
    HeadPart {
        numbers: memory,
        step: words,
    }
}

/// Vectors as a matrix (words of the positions, width): themselves, or in this memory.
pub(super) fn along_positions<'a>(
    part: HeadPart<'a, f32>,
    (positions, each): (usize, usize),
    terms: Terms,
    memory: &'a mut Vec<f32>,
) -> HeadPart<'a, f32> {
    if terms == Terms::Singles {
        return part;
    }
    memory.resize(terms.words(positions) * each, 0.0);
    across(part.numbers, part.step, (positions, each), each, memory);
    HeadPart {
        numbers: memory,
        step: each,
    }
}

/// Writes the vectors of a block of queries, transposed: (words of the width, [`BLOCK`]).
pub(super) fn transposed_block(
    (from, step): (&[f32], usize),
    (count, each): (usize, usize),
    terms: Terms,
    (to, memory): (&mut [f32], &mut Vec<f32>),
) {
    if terms == Terms::Singles {
        return transpose(from, step, (count, each), to, BLOCK);
    }
    let words = terms.words(each);
    memory.resize(BLOCK * words, 0.0);
    along(from, step, (count, each), words, memory);
    transpose(memory, words, (count, words), to, BLOCK);
}

/// Lines of a panel's weights, [`BLOCK`] apart, as a matrix (words of the keys, queries), and its stride from row to row.
pub(super) fn along_keys<'a>(
    weights: &'a [f32],
    (keys, queries): (usize, usize),
    terms: Terms,
    memory: &'a mut Vec<f32>,
) -> (&'a [f32], usize) {
    if terms == Terms::Singles {
        return (weights, BLOCK);
    }
    memory.resize(terms.words(keys) * PANEL, 0.0);
    across(weights, BLOCK, (keys, queries), PANEL, memory);
    (memory, PANEL)
}

/// Lines of weights, [`BLOCK`] apart, as a matrix (keys, words of the queries), and its stride from row to row.
pub(super) fn along_queries<'a>(
    weights: &'a [f32],
    (keys, queries): (usize, usize),
    terms: Terms,
    memory: &'a mut Vec<f32>,
) -> (&'a [f32], usize) {
    if terms == Terms::Singles {
        return (weights, BLOCK);
    }
    let words = terms.words(queries);
    memory.resize(keys * words, 0.0);
    along(weights, BLOCK, (keys, queries), words, memory);
    (memory, words)
}

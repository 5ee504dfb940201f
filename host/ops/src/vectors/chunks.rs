//! Vectors, cut into chunks that threads share.

use std::sync::{Mutex, PoisonError};

use super::Element;
use crate::kernels::region;
use crate::options::Slices;

/// Elements of a chunk: 64 KiB of `f32`, a fraction of a core's cache.
pub const CHUNK: usize = 16_384;

impl Slices {
    /// How a reduction is divided.
    pub(super) fn cut(self) -> Cut {
        match self {
            Slices { count: 1, .. } => Cut::Chunks,
            Slices { inner, .. } if inner >= SHORT => Cut::Slices,
            _ => Cut::Interleaved,
        }
    }

    /// Counts each element into the result of its slice.
    pub(super) fn fold<T: Element>(
        self,
        elements: &[T],
        mut results: Vec<f64>,
        count: impl Fn(f64, f64) -> f64,
    ) -> Vec<f64> {
        for runs in elements.chunks(self.inner * self.count) {
            for (result, run) in results.iter_mut().zip(runs.chunks(self.inner)) {
                *result = run.iter().fold(*result, |sum, x| count(sum, x.wide()));
            }
        }
        results
    }

    /// The runs of one slice.
    pub(super) fn runs<T>(self, elements: &[T], slice: usize) -> impl Iterator<Item = &[T]> {
        let all = elements.chunks(self.inner);
        all.skip(slice).step_by(self.count)
    }

    /// Calls `work` with each run of a chunk, which begins at the element `start`, and the index of its slice.
    pub(super) fn for_each_run<T>(
        self,
        start: usize,
        mut chunk: &mut [T],
        mut work: impl FnMut(usize, &mut [T]),
    ) {
        if self.count == 1 {
            return work(0, chunk);
        }
        let mut at = start;
        while !chunk.is_empty() {
            let length = (self.inner - at % self.inner).min(chunk.len());
            let (run, rest) = chunk.split_at_mut(length);
            work(at / self.inner % self.count, run);
            at += length;
            chunk = rest;
        }
    }
}

/// Shortest run that is worth a loop of its own.
const SHORT: usize = 32;

/// How a reduction of a vector is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// One slice, in chunks.
    Chunks,
    /// Slice by slice.
    Slices,
    /// All slices in one pass, as their runs are short.
    Interleaved,
}

/// A chunk of a vector: the vector's index, where it begins, and its elements.
type Chunk<'a, T> = (usize, usize, &'a mut [T]);

/// All chunks of some vectors; each is locked once, by the thread that works on it.
pub(super) struct Chunks<'a, T>(Vec<Mutex<Chunk<'a, T>>>);

/// Cuts vectors into chunks.
pub(super) fn cut<'a, T>(vectors: impl Iterator<Item = &'a mut [T]>) -> Chunks<'a, T> {
    let of_vector = |(vector, elements): (usize, &'a mut [T])| {
        let chunks = elements.chunks_mut(CHUNK).enumerate();
        chunks.map(move |(chunk, elements)| Mutex::new((vector, chunk * CHUNK, elements)))
    };
    Chunks(vectors.enumerate().flat_map(of_vector).collect())
}

/// Cuts vectors that are combined with others.
///
/// # Panics
///
/// If there are not as many, or two have different lengths.
pub(super) fn cut_pairs<'a, T>(onto: &'a mut [&mut [T]], from: &[&[T]]) -> Chunks<'a, T> {
    let lengths = onto.iter().map(|elements| elements.len());
    assert!(
        lengths.eq(from.iter().map(|elements| elements.len())),
        "vectors that are combined have different lengths"
    );
    cut(onto.iter_mut().map(|elements| &mut **elements))
}

impl<T: Send> Chunks<'_, T> {
    /// Calls `work` once for each chunk, in parallel, with the vector's index, the chunk's start and its elements.
    pub(super) fn run(&self, threads: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
        region::distribute(
            threads,
            self.0.len(),
            || (),
            |(), index| {
                let mut chunk = self.0[index].lock().unwrap_or_else(PoisonError::into_inner);
                let (vector, start, elements) = &mut *chunk;
                work(*vector, *start, elements);
            },
        );
    }
}

//! Vectors, cut into pieces that threads share.

use std::sync::{Mutex, PoisonError};

use super::Element;
use crate::kernels::region;

/// Elements of a piece: 64 KiB of `f32`, a fraction of a core's cache.
pub const PIECE: usize = 16_384;

/// The slices of a vector along one dimension of its tensor.
///
/// A slice's elements lie in runs of `inner`, which alternate with those of the other slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    pub(super) count: usize,
    inner: usize,
}

impl Slices {
    /// The whole vector as one slice.
    pub const WHOLE: Slices = Slices { count: 1, inner: 1 };

    /// The slices along the dimension `axis` of a contiguous tensor of this shape; the whole where it has no such
    /// dimension.
    pub fn along(shape: &[usize], axis: usize) -> Slices {
        match shape.get(axis) {
            Some(&count) if count > 1 => Slices {
                count,
                inner: shape[axis + 1..].iter().product::<usize>().max(1),
            },
            _ => Slices::WHOLE,
        }
    }

    /// `count` slices, each of runs of `inner` elements.
    pub fn interleaved(count: usize, inner: usize) -> Slices {
        Slices {
            count: count.max(1),
            inner: inner.max(1),
        }
    }

    /// Number of slices, at least 1.
    pub fn count(self) -> usize {
        self.count
    }

    /// How a reduction is divided.
    pub(super) fn cut(self) -> Cut {
        match self {
            Slices { count: 1, .. } => Cut::Pieces,
            Slices { inner, .. } if inner >= SHORT => Cut::Slices,
            _ => Cut::Interleaved,
        }
    }

    /// Counts each element into the result of its slice.
    pub(super) fn fold<T: Element>(
        self,
        numbers: &[T],
        mut results: Vec<f64>,
        count: impl Fn(f64, f64) -> f64,
    ) -> Vec<f64> {
        for runs in numbers.chunks(self.inner * self.count) {
            for (result, run) in results.iter_mut().zip(runs.chunks(self.inner)) {
                *result = run.iter().fold(*result, |sum, x| count(sum, x.wide()));
            }
        }
        results
    }

    /// The runs of one slice.
    pub(super) fn runs<T>(self, numbers: &[T], slice: usize) -> impl Iterator<Item = &[T]> {
        let all = numbers.chunks(self.inner);
        all.skip(slice).step_by(self.count)
    }

    /// Calls `work` with each run of a piece, which begins at the element `start`, and the index of its slice.
    pub(super) fn for_each_run<T>(
        self,
        start: usize,
        mut piece: &mut [T],
        mut work: impl FnMut(usize, &mut [T]),
    ) {
        if self.count == 1 {
            return work(0, piece);
        }
        let mut at = start;
        while !piece.is_empty() {
            let length = (self.inner - at % self.inner).min(piece.len());
            let (run, rest) = piece.split_at_mut(length);
            work(at / self.inner % self.count, run);
            at += length;
            piece = rest;
        }
    }
}

/// Shortest run that is worth a loop of its own.
const SHORT: usize = 32;

/// How a reduction of a vector is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// One slice, in pieces.
    Pieces,
    /// Slice by slice.
    Slices,
    /// All slices in one pass, as their runs are short.
    Interleaved,
}

/// A piece of a vector: the vector's index, where it begins, and its elements.
type Piece<'a, T> = (usize, usize, &'a mut [T]);

/// All pieces of some vectors; each is locked once, by the thread that works on it.
pub(super) struct Pieces<'a, T>(Vec<Mutex<Piece<'a, T>>>);

/// Cuts vectors into pieces.
pub(super) fn cut<'a, T>(vectors: impl Iterator<Item = &'a mut [T]>) -> Pieces<'a, T> {
    let of_vector = |(vector, numbers): (usize, &'a mut [T])| {
        let pieces = numbers.chunks_mut(PIECE).enumerate();
        pieces.map(move |(piece, numbers)| Mutex::new((vector, piece * PIECE, numbers)))
    };
    Pieces(vectors.enumerate().flat_map(of_vector).collect())
}

/// Cuts vectors that are combined with others.
///
/// # Panics
///
/// If there are not as many, or two have different lengths.
pub(super) fn cut_pairs<'a, T>(onto: &'a mut [&mut [T]], from: &[&[T]]) -> Pieces<'a, T> {
    let lengths = onto.iter().map(|numbers| numbers.len());
    assert!(
        lengths.eq(from.iter().map(|numbers| numbers.len())),
        "vectors that are combined have different lengths"
    );
    cut(onto.iter_mut().map(|numbers| &mut **numbers))
}

impl<T: Send> Pieces<'_, T> {
    /// Calls `work` once for each piece, in parallel, with the vector's index, the piece's start and its elements.
    pub(super) fn run(&self, threads: usize, work: impl Fn(usize, usize, &mut [T]) + Sync) {
        region::distribute(
            threads,
            self.0.len(),
            || (),
            |(), index| {
                let mut piece = self.0[index].lock().unwrap_or_else(PoisonError::into_inner);
                let (vector, start, numbers) = &mut *piece;
                work(*vector, *start, numbers);
            },
        );
    }
}

//! Loops over all elements of a tensor, in parallel.

use std::mem::MaybeUninit;

use super::math::Number;
use super::memory::fill::{Rows, Schedule, UninitRows, fill_parts};
use super::parallel::region;

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

/// Number of elements in a chunk.
const CHUNK: usize = 16 << 10;

/// Runs a kernel over chunks of `x` (and `more`, of the same length or empty), in parallel.
///
/// The kernel hands back what it was given uninitialised, written.
pub(crate) fn map<T: Number>(
    x: &[T],
    more: &[T],
    kernel: impl for<'a> Fn(&[T], &[T], &'a mut [MaybeUninit<T>]) -> &'a mut [T] + Sync,
) -> Vec<T> {
    fill_parts(
        schedule(x.len()),
        UninitRows::new(x.len(), 1),
        |range, y| {
            kernel(
                &x[range.clone()],
                more.get(range.clone()).unwrap_or_default(),
                y,
            )
        },
    )
}

/// Runs a kernel that converts elements to another type over chunks of them, in parallel.
///
/// The kernel hands back what it was given uninitialised, written.
pub(crate) fn converted<From: Sync, To: Copy + Send + Sync + 'static>(
    from: &[From],
    kernel: impl for<'a> Fn(&[From], &'a mut [MaybeUninit<To>]) -> &'a mut [To] + Sync,
) -> Vec<To> {
    let memory = UninitRows::new(from.len(), 1);
    fill_parts(schedule(from.len()), memory, |own, to| {
        kernel(&from[own.clone()], to)
    })
}

/// Runs a kernel that leaves something in place of `x`, like [`map`].
pub(crate) fn map_leaving<T: Number>(
    x: &mut [T],
    kernel: impl for<'a> Fn(&mut [T], &'a mut [MaybeUninit<T>]) -> &'a mut [T] + Sync,
) -> Vec<T> {
    let schedule = schedule(x.len());
    let memory = (UninitRows::new(x.len(), 1), Rows::new(x, 1));
    let (y, ()) = fill_parts(schedule, memory, |_, (y, x)| (kernel(x, y), ()));
    y
}

/// How elements are distributed over the threads.
fn schedule(count: usize) -> Schedule {
    Schedule::of_size(region::parts(count * EACH), count, CHUNK)
}

//! What the passes do on the CPU, for any type of elements.
//!
//! Compiled here for `f32` and `f64`, by [`Element`]'s own functions: a crate that is not optimised as this one is would
//! otherwise compile the loops for itself.

use candle_core::WithDType;

use super::Element;
use super::chunks::{CHUNK, Cut, cut, cut_pairs};
use super::totals::Total;
use crate::kernels::region;
use crate::options::{Change, Combination, Reduction, Slices};
use crate::vectorised;

pub(super) fn reduce<T: Element>(
    threads: usize,
    vectors: &[(&[T], Slices)],
    reduction: Reduction,
) -> Vec<f64> {
    let (mut tasks, mut starts, mut count) = (Vec::new(), vec![0], 0);
    for (vector, (elements, slices)) in vectors.iter().enumerate() {
        let (parts, each) = match slices.cut() {
            Cut::Chunks => (elements.len().div_ceil(CHUNK).max(1), 1),
            Cut::Slices => (slices.count, 1),
            Cut::Interleaved => (1, slices.count),
        };
        for part in 0..parts {
            tasks.push((vector, part, count..count + each));
            count += each;
        }
        starts.push(count);
    }
    let totals: Vec<Total> = (0..count).map(|_| Total::default()).collect();
    region::distribute(
        threads,
        tasks.len(),
        || (),
        |(), index| {
            let (vector, part, place) = &tasks[index];
            let (elements, slices) = vectors[*vector];
            let totals = &totals[place.clone()];
            match slices.cut() {
                Cut::Chunks => {
                    let end = elements.len().min((part + 1) * CHUNK);
                    totals[0].set(reduction.of(&elements[part * CHUNK..end]));
                }
                Cut::Slices => {
                    let runs = slices.runs(elements, *part).map(|run| reduction.of(run));
                    totals[0].set(reduction.joined(runs));
                }
                Cut::Interleaved => {
                    let sums = reduction.of_interleaved(elements, slices);
                    totals
                        .iter()
                        .zip(sums)
                        .for_each(|(total, sum)| total.set(sum));
                }
            }
        },
    );
    let mut results = Vec::new();
    for ((_, slices), place) in vectors.iter().zip(starts.windows(2)) {
        let found = totals[place[0]..place[1]].iter().map(Total::get);
        if slices.cut() == Cut::Chunks {
            results.push(reduction.joined(found));
        } else {
            results.extend(found);
        }
    }
    results
}

pub(super) fn change<T: Element>(
    threads: usize,
    vectors: &mut [(&mut [T], Slices)],
    change: Change<'_>,
) {
    let mut first = 0;
    let firsts: Vec<(usize, Slices)> = vectors
        .iter()
        .map(|(_, slices)| {
            let own = first;
            first += slices.count;
            (own, *slices)
        })
        .collect();
    let chunks = cut(vectors.iter_mut().map(|(elements, _)| &mut **elements));
    chunks.run(threads, |vector, start, elements| match change {
        Change::Scale(factor) => scale(elements, factor),
        Change::ScaleSlices(factors) => {
            let (first, slices) = firsts[vector];
            slices.for_each_run(start, elements, |slice, run| {
                let factor = factors[first + slice];
                if (factor - 1.0).abs() > 0.0 {
                    scale(run, factor);
                }
            });
        }
        Change::Clamp(lower, upper) => clamp(
            elements,
            <T as WithDType>::from_f64(lower),
            <T as WithDType>::from_f64(upper),
        ),
        Change::Fill(number) => elements.fill(<T as WithDType>::from_f64(number)),
    });
}

pub(super) fn combine<T: Element>(
    threads: usize,
    onto: &mut [&mut [T]],
    from: &[&[T]],
    combination: Combination,
) {
    let chunks = cut_pairs(onto, from);
    chunks.run(threads, |vector, start, elements| {
        let others = &from[vector][start..start + elements.len()];
        match combination {
            Combination::Add(weight) => {
                add(elements, others, <T as WithDType>::from_f64(weight));
            }
            Combination::Blend(weight) => {
                blend(elements, others, <T as WithDType>::from_f64(weight));
            }
            Combination::Multiply => multiply(elements, others),
            Combination::Copy => elements.copy_from_slice(others),
        }
    });
}

vectorised! {
    fn scale<T: Element>(elements: &mut [T], factor: f64) {
        for number in elements {
            *number = <T as WithDType>::from_f64(number.wide() * factor);
        }
    }
}

vectorised! {
    fn clamp<T: Element>(elements: &mut [T], lower: T, upper: T) {
        for number in elements {
            let x = *number;
            let x = if x < lower { lower } else { x };
            *number = if x > upper { upper } else { x };
        }
    }
}

// Products are rounded before they are added to, at every instruction set.

vectorised! {
    fn add<T: Element>(elements: &mut [T], others: &[T], weight: T) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number += weight * *other;
        }
    }
}

vectorised! {
    fn blend<T: Element>(elements: &mut [T], others: &[T], weight: T) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number += weight * (*other - *number);
        }
    }
}

vectorised! {
    fn multiply<T: Element>(elements: &mut [T], others: &[T]) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number *= *other;
        }
    }
}

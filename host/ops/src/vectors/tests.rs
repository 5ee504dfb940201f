//! Passes compared with the plain loops that they stand for.

use super::*;

fn elements(count: usize) -> Vec<f32> {
    let mut stream = crate::random::stream(7, "passes over vectors", 0, 0);
    (0..count).map(|_| stream.normal() as f32).collect()
}

/// Lengths around those of lanes, chunks and blocks.
const LENGTHS: [usize; 7] = [0, 1, 15, 100, CHUNK, CHUNK + 17, 3 * CHUNK + 1];

#[test]
fn sums_are_those_of_a_plain_loop_for_any_number_of_threads() {
    let vectors: Vec<Vec<f32>> = LENGTHS.into_iter().map(elements).collect();
    let whole: Vec<_> = vectors
        .iter()
        .map(|one| (&one[..], Slices::WHOLE))
        .collect();
    for (reduction, plain) in [
        (
            Reduction::Powers(2.0),
            (|sum, x| sum + x * x) as fn(f64, f64) -> f64,
        ),
        (Reduction::Powers(1.0), |sum, x| sum + x.abs()),
        (Reduction::Powers(3.0), |sum, x| sum + x.abs().powi(3)),
        (Reduction::Largest, |most, x| most.max(x.abs())),
        (Reduction::NotFinite, |sum, _| sum),
    ] {
        let found = reduce(1, &whole, reduction);
        for threads in [2, 5] {
            assert_eq!(found, reduce(threads, &whole, reduction), "{reduction:?}");
        }
        for (found, one) in found.iter().zip(&vectors) {
            let exact = one.iter().fold(0.0, |sum, &x| plain(sum, f64::from(x)));
            assert!(
                (found - exact).abs() <= 1e-9 * exact,
                "{reduction:?}: {found} {exact}"
            );
        }
    }
}

#[test]
fn elements_that_are_not_finite_are_counted_wherever_they_are() {
    for count in LENGTHS.into_iter().skip(1) {
        let mut x = elements(count);
        let last = count - 1;
        x[last] = f32::NAN;
        x[last / 2] = f32::INFINITY;
        let infinite = f64::from(u8::from(count > 1));
        let vectors = [(&x[..], Slices::WHOLE)];
        let nan = f64::from(u8::from(x[last].is_nan()));
        assert_eq!(reduce(2, &vectors, Reduction::NotANumber), [nan], "{count}");
        let both = if count > 1 { nan + infinite } else { 1.0 };
        assert_eq!(reduce(2, &vectors, Reduction::NotFinite), [both], "{count}");
        assert_eq!(
            reduce(2, &vectors, Reduction::Largest)[0].is_nan(),
            nan > 0.0
        );
    }
}

#[test]
fn slices_along_each_dimension_are_reduced_and_scaled() {
    let shape = [6, 41, 70];
    let x: Vec<f64> = elements(6 * 41 * 70).into_iter().map(f64::from).collect();
    let at = |place: usize| [place / (41 * 70), place / 70 % 41, place % 70];
    for axis in 0..3 {
        let slices = Slices::along(&shape, axis);
        let sums = reduce(2, &[(&x[..], slices)], Reduction::Powers(2.0));
        let mut exact = vec![0.0; shape[axis]];
        for (place, number) in x.iter().enumerate() {
            exact[at(place)[axis]] += number * number;
        }
        assert_eq!(sums.len(), exact.len());
        for (found, exact) in sums.iter().zip(&exact) {
            assert!(
                (found - exact).abs() < 1e-9 * exact,
                "{axis}: {found} {exact}"
            );
        }
        let factors: Vec<f64> = (0..shape[axis]).map(|slice| slice as f64 - 2.5).collect();
        let mut scaled = x.clone();
        change(
            2,
            &mut [(&mut scaled[..], slices)],
            Change::ScaleSlices(&factors),
        );
        for (place, (found, before)) in scaled.iter().zip(&x).enumerate() {
            let expected = before * factors[at(place)[axis]];
            assert_eq!(found.to_bits(), expected.to_bits(), "{axis}");
        }
    }
    assert_eq!(Slices::along(&[], 0), Slices::WHOLE);
    assert_eq!(Slices::along(&[3], 1), Slices::WHOLE);
}

#[test]
fn elements_are_changed_and_combined_as_by_a_plain_loop() {
    let before: Vec<Vec<f32>> = LENGTHS.into_iter().map(elements).collect();
    let others: Vec<Vec<f32>> = before
        .iter()
        .map(|one| one.iter().map(|x| x * 3.0 - 1.0).collect())
        .collect();
    for (kind, plain) in [
        (
            Change::Scale(0.3),
            (|x| (f64::from(x) * 0.3) as f32) as fn(f32) -> f32,
        ),
        (Change::Clamp(-0.5, 0.25), |x| x.clamp(-0.5, 0.25)),
        (Change::Fill(4.0), |_| 4.0),
    ] {
        let mut found = before.clone();
        let mut vectors: Vec<_> = found
            .iter_mut()
            .map(|one| (&mut one[..], Slices::WHOLE))
            .collect();
        change(2, &mut vectors, kind);
        for (found, before) in found.iter().flatten().zip(before.iter().flatten()) {
            assert_eq!(found.to_bits(), plain(*before).to_bits(), "{kind:?}");
        }
    }
    for (kind, plain) in [
        (
            Combination::Add(0.3),
            (|x, y| x + 0.3 * y) as fn(f32, f32) -> f32,
        ),
        (Combination::Blend(0.3), |x, y| x + 0.3 * (y - x)),
        (Combination::Multiply, |x, y| x * y),
        (Combination::Copy, |_, y| y),
    ] {
        let mut found = before.clone();
        let mut onto: Vec<_> = found.iter_mut().map(|one| &mut one[..]).collect();
        let from: Vec<_> = others.iter().map(|one| &one[..]).collect();
        combine(2, &mut onto, &from, kind);
        let elements = before.iter().flatten().zip(others.iter().flatten());
        for (found, (x, y)) in found.iter().flatten().zip(elements) {
            assert_eq!(found.to_bits(), plain(*x, *y).to_bits(), "{kind:?}");
        }
    }
    let mut nan = [f32::NAN];
    change(
        1,
        &mut [(&mut nan[..], Slices::WHOLE)],
        Change::Clamp(0.0, 1.0),
    );
    assert!(nan[0].is_nan());
}

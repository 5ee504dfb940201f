//! Tests of packed blocks against a naive product.

use super::*;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7 + seed * 13) % 11) as f32 - 5.0;
    (0..count).map(number).collect()
}

/// A (rows, columns) matrix, transposed in memory if wanted.
fn stored(matrix: &[f32], columns: usize, is_transposed: bool) -> Vec<f32> {
    if !is_transposed {
        return matrix.to_vec();
    }
    let rows = matrix.len() / columns;
    let element = |index: usize| matrix[index % rows * columns + index / rows];
    (0..matrix.len()).map(element).collect()
}

fn view(numbers: &[f32], rows: usize, columns: usize, is_transposed: bool) -> Matrix<'_, f32> {
    if is_transposed {
        Matrix::new(numbers, columns, rows).t()
    } else {
        Matrix::new(numbers, rows, columns)
    }
}

#[test]
fn products_of_all_sizes_and_orders_are_the_slow_ones() {
    for (m, k, n) in [
        (16, 16, 16),
        (17, 300, 33),
        (64, 19, 100),
        (130, 513, 70),
        (50, 256, 200),
    ] {
        if !Blocked::pays(m, k, n) {
            continue;
        }
        let (a, b, row) = (numbers(m * k, 1), numbers(k * n, 2), numbers(n, 3));
        let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f32>();
        let exact: Vec<f32> = (0..m * n).map(|index| dot(index / n, index % n)).collect();
        let with_row = exact
            .iter()
            .enumerate()
            .map(|(index, x)| x + row[index % n]);
        let with_row: Vec<f32> = with_row.collect();
        for (left_transposed, right_transposed) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let a = stored(&a, k, left_transposed);
            let b = stored(&b, n, right_transposed);
            let left = view(&a, m, k, left_transposed);
            let right = view(&b, k, n, right_transposed);
            let plain = Factors {
                left,
                right,
                row: None,
            };
            let begun = Factors {
                row: Some(&row),
                ..plain
            };
            for threads in [1, 2, 5] {
                let products = [Some(Blocked::new(plain)), None, Some(Blocked::new(begun))];
                let [first, none, second] = multiply_blocked(threads, products);
                assert_eq!(first.as_ref(), Some(&exact), "{m} {k} {n}");
                assert_eq!(second.as_ref(), Some(&with_row), "{m} {k} {n}");
                assert!(none.is_none());
                let product = Blocked::new(begun).rectified(true);
                let [found] = multiply_blocked(threads, [Some(product)]);
                let expected: Vec<f32> = with_row.iter().map(|x| x.max(0.0)).collect();
                assert_eq!(found, Some(expected), "{m} {k} {n}");
            }
            let packed = PackedRight::new(2, right);
            let mut own = UninitBuffer::new((m - 3) * n);
            let mut scratch = BlockScratch::default();
            let rows = 3..m;
            let start = (Some(&*row), false);
            let own =
                multiply_packed_uninit(own.slots(), left, &rows, &packed, start, &mut scratch);
            assert_eq!(own, &with_row[3 * n..]);
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (rows, depth, columns) = (40, 700, 90);
    if !Blocked::pays(rows, depth, columns) {
        return;
    }
    let left: Vec<f32> = (0..rows * depth).map(|x| (x as f32).sin()).collect();
    let right: Vec<f32> = (0..depth * columns).map(|x| (x as f32).cos()).collect();
    let factors = Factors {
        left: Matrix::new(&left, rows, depth),
        right: Matrix::new(&right, depth, columns),
        row: None,
    };
    let bits = |threads: usize| {
        let [y] = multiply_blocked(threads, [Some(Blocked::new(factors))]);
        let y = y.expect("it is wanted");
        y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(bits(1), bits(2));
    assert_eq!(bits(1), bits(7));
}

/// With both orders of units, several blocks along the depth, and tiles of fewer rows and columns.
#[test]
fn elements_are_sums_in_the_order_of_the_depth_rounded_at_each_step() {
    for (rows, depth, columns) in [(140, 600, 70), (45, 300, 150)] {
        if !Blocked::pays(rows, depth, columns) {
            return;
        }
        let thirds = |count: usize, seed: usize| -> Vec<f32> {
            numbers(count, seed).iter().map(|x| x / 3.0).collect()
        };
        let (left, right) = (thirds(rows * depth, 1), thirds(depth * columns, 2));
        let row = thirds(columns, 3);
        let factors = Factors {
            left: Matrix::new(&left, rows, depth),
            right: Matrix::new(&right, depth, columns),
            row: Some(&row),
        };
        let [found] = multiply_blocked(2, [Some(Blocked::new(factors))]);
        let weight = stored(&right, columns, true);
        let weight = Matrix::new(&weight, columns, depth);
        let in_place = multiply_in_place(2, factors.left, weight, (Some(&row), false));
        let found = found.expect("it is wanted").into_iter().zip(in_place);
        for (index, (found, in_place)) in found.enumerate() {
            let (i, j) = (index / columns, index % columns);
            let add = |sum, l: usize| left[i * depth + l].mul_add(right[l * columns + j], sum);
            let exact: f32 = (0..depth).fold(row[j], add);
            assert_eq!(found.to_bits(), exact.to_bits(), "{i} {j}");
            assert_eq!(in_place.to_bits(), exact.to_bits(), "{i} {j}");
        }
        let rectified = multiply_in_place(3, factors.left, weight, (None, true));
        let plain = multiply_in_place(1, factors.left, weight, (None, false));
        let expected: Vec<f32> = plain.iter().map(|x| x.max(0.0)).collect();
        assert_eq!(rectified, expected);
    }
}

/// The instruction set is fixed at its first use, so the test above runs in another process once more.
#[test]
#[expect(clippy::print_stderr, reason = "it says what was not tested")]
fn avx2_and_avx512_give_the_same_bits() {
    use crate::kernels::{InstructionLevel, VARIABLE, level};
    if level() != InstructionLevel::Avx512 {
        eprintln!("skipped: this processor has no AVX-512, or it may not be used");
        return;
    }
    let tests = std::env::current_exe().expect("the tests");
    let name = "kernels::products::blocked::tests::elements_are_sums_in_the_order_of_the_depth_rounded_at_each_step";
    let output = std::process::Command::new(tests)
        .args(["--exact", name])
        .env(VARIABLE, "avx2")
        .output()
        .expect("the tests");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 passed"), "{text}");
}

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
            }
            let packed = PackedRight::new(2, right);
            let mut own = UninitBuffer::new((m - 3) * n);
            let mut scratch = BlockScratch::default();
            let rows = 3..m;
            let own =
                multiply_packed_uninit(own.slots(), left, &rows, &packed, Some(&row), &mut scratch);
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

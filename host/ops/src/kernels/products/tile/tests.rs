//! Tests of tiled multiplication against a naive one, and of one instruction set against the other.

use super::*;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7 + seed * 13) % 11) as f32 - 5.0;
    (0..count).map(number).collect()
}

#[test]
fn products_of_all_sizes_are_the_slow_ones() {
    if !has_tiles() {
        return;
    }
    for (rows, columns, outer, inner) in [
        (1, 1, 1, 1),
        (5, 7, 2, 3),
        (12, 32, 1, 9),
        (13, 33, 3, 1),
        (40, 100, 2, 17),
        (64, 16, 1, 64),
        (7, 40, 1, 300),
    ] {
        // The left matrix is column-major, with an inner stride longer than its columns.
        let (step, outer_step) = (rows + 3, (rows + 3) * inner + 2);
        let left = numbers(outer * outer_step, 1);
        let (right_step, right_outer) = (columns + 1, (columns + 1) * inner + 5);
        let right = numbers(outer * right_outer + PANEL, 2);
        let begin = numbers(columns, 3);
        let exact = |row: usize, column: usize| {
            let mut sum = 0.0;
            for o in 0..outer {
                for i in 0..inner {
                    sum += left[o * outer_step + i * step + row]
                        * right[o * right_outer + i * right_step + column];
                }
            }
            sum
        };
        let matrices = (
            LeftMatrix {
                numbers: &left,
                row: 1,
                steps: (outer_step, step),
            },
            Right {
                numbers: &right,
                panel: PANEL,
                steps: (right_outer, right_step),
            },
        );
        let depth = Depth {
            outer,
            inner,
            terms: Terms::Singles,
        };
        // A row stride longer than the rows: the elements between rows stay unchanged.
        let row_step = columns + 2;
        let mut y = numbers(rows * row_step, 4);
        let before = y.clone();
        let mut target = TargetMatrix::adding_with_step(&mut y, rows, columns, row_step);
        multiply_tiles(&mut target, depth, matrices.0, matrices.1);
        for (index, (y, before)) in y.iter().zip(&before).enumerate() {
            let (row, column) = (index / row_step, index % row_step);
            let more = if column < columns {
                exact(row, column)
            } else {
                0.0
            };
            let exact = before + more;
            assert_eq!(
                y.to_bits(),
                exact.to_bits(),
                "{rows} {columns} {row} {column}"
            );
        }
        let mut y = vec![0.0; rows * columns];
        let mut target = TargetMatrix::replacing(&mut y, rows, columns).with_row(Some(&begin));
        multiply_tiles(&mut target, depth, matrices.0, matrices.1);
        for (index, y) in y.iter().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let exact = begin[column] + exact(row, column);
            assert_eq!(y.to_bits(), exact.to_bits());
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "each set of instructions by itself")]
fn both_sets_of_instructions_give_the_same_bits() {
    if level() != InstructionLevel::Avx512 || !is_x86_feature_detected!("fma") {
        return;
    }
    let (rows, columns, inner) = (29, 50, 300);
    let thirds = |count: usize, seed: usize| -> Vec<f32> {
        numbers(count, seed).iter().map(|x| x / 3.0).collect()
    };
    let (left, right) = (thirds(rows * inner, 1), thirds(inner * columns, 2));
    let mut made = [vec![0.0; rows * columns], vec![0.0; rows * columns]];
    for (index, y) in made.iter_mut().enumerate() {
        let product = Product {
            depth: Depth::new(inner),
            left: LeftMatrix {
                numbers: &left,
                row: inner,
                steps: (0, 1),
            },
            strips: None,
            right: Right {
                numbers: &right,
                panel: PANEL,
                steps: (0, columns),
            },
            wide: PANEL,
            target: &TargetMatrix::replacing(y, rows, columns),
            adds: false,
        };
        // SAFETY: the processor was checked to have AVX-512 and FMA, hence AVX2 too, and the matrices have the sizes
        // given.
        unsafe {
            if index == 0 {
                product.avx512::<registers::Singles>(&mut Prefetch::default());
            } else {
                product.avx2::<registers::Singles>(&mut Prefetch::default());
            }
        }
    }
    let [wide, narrow] = made.map(|y| y.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    assert_eq!(wide, narrow);
}

#[test]
#[should_panic(expected = "don't fit")]
fn a_matrix_that_is_too_short_is_refused() {
    let numbers = [0.0; 100];
    let mut y = [0.0; 100];
    let left = LeftMatrix {
        numbers: &numbers,
        row: 10,
        steps: (0, 1),
    };
    let right = Right {
        numbers: &numbers[..99],
        panel: PANEL,
        steps: (0, 10),
    };
    let mut target = TargetMatrix::replacing(&mut y, 10, 10);
    multiply_tiles(&mut target, Depth::new(10), left, right);
}

//! Tests of packed blocks against a naive product.

use candle_core::{DType, Device, Tensor};

use super::*;
use crate::kernels::products::words::rounded;

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
            let packed = PackedRight::new(2, right, Terms::Singles);
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

/// The instruction set is fixed at its first use, so the test above runs again in another process.
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

/// An element as `bf16` by the definition: the nearest, ties to even.
fn narrow(number: f32) -> f32 {
    f32::from_bits(rounded(number) << 16)
}

#[test]
fn elements_are_rounded_to_the_nearest_of_16_bits() {
    let cases = [
        (1.0, 0x3f80),
        (-0.0, 0x8000),
        // Ties: to the even one, down and up.
        (f32::from_bits(0x3f80_8000), 0x3f80),
        (f32::from_bits(0x3f81_8000), 0x3f82),
        (f32::from_bits(0x3f80_8001), 0x3f81),
        (f32::MAX, 0x7f80),
        (f32::NEG_INFINITY, 0xff80),
        (f32::from_bits(0x7f80_0001), 0x7fc0),
        // Denormal numbers become zeros; the largest of them, too.
        (f32::from_bits(0x007f_ffff), 0),
        (f32::from_bits(0x8000_0001), 0x8000),
        (f32::MIN_POSITIVE, 0x0080),
    ];
    for (number, bits) in cases {
        assert_eq!(rounded(number), bits, "{number:e}");
    }
    // As candle does it, but for denormal numbers.
    let all = (0..10_000_u32).map(|index| f32::from_bits(index.wrapping_mul(2_654_435_761)));
    let all: Vec<f32> = all.filter(|number| number.is_normal()).collect();
    let tensor = Tensor::new(all.as_slice(), &Device::Cpu).expect("a tensor");
    let narrowed = tensor
        .to_dtype(DType::BF16)
        .and_then(|narrow| narrow.to_dtype(DType::F32));
    let narrowed: Vec<f32> = narrowed.expect("narrow").to_vec1().expect("numbers");
    let ours: Vec<f32> = all.into_iter().map(narrow).collect();
    assert_eq!(ours, narrowed);
}

#[test]
fn rounded_products_are_those_of_rounded_elements_in_all_orders() {
    // Odd depths, several blocks of words, and widths that are no multiples of tiles.
    for (m, k, n) in [
        (16, 16, 16),
        (17, 301, 33),
        (64, 19, 100),
        (130, 515, 70),
        (50, 256, 200),
    ] {
        if !Blocked::pays(m, k, n) {
            continue;
        }
        let uneven = |numbers: Vec<f32>| numbers.iter().map(|x| x * 1.003 + 0.01).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (uneven(numbers(m * k, 1)), uneven(numbers(k * n, 2)));
        let row = numbers(n, 3);
        let mut bits: Option<Vec<f32>> = None;
        for order in 0..4 {
            let [of_left, of_right] = [order & 1 > 0, order & 2 > 0];
            let (left, right) = (stored(&a, k, of_left), stored(&b, n, of_right));
            let factors = Factors {
                left: view(&left, m, k, of_left),
                right: view(&right, k, n, of_right),
                row: Some(&row),
            };
            for threads in [1, 3] {
                let product = Blocked::new(factors).in_terms(Terms::Pairs);
                let [found] = multiply_blocked(threads, [Some(product)]);
                let found = found.expect("a product");
                for (index, found) in found.iter().enumerate() {
                    let (i, j) = (index / n, index % n);
                    let terms = (0..k)
                        .map(|l| f64::from(narrow(a[i * k + l])) * f64::from(narrow(b[l * n + j])));
                    let size: f64 = terms.clone().map(f64::abs).sum();
                    let exact = terms.sum::<f64>() + f64::from(row[j]);
                    assert!(
                        (f64::from(*found) - exact).abs() <= 1e-6 * size.max(1.0),
                        "{m} {k} {n}"
                    );
                }
                let same = bits.get_or_insert_with(|| found.clone());
                assert_eq!(&found, same, "{m} {k} {n}");
            }
        }
    }
}

use candle_core::{DType, Var};

use super::*;
use crate::gradient_check::check_gradients;
use crate::normal_numbers;

fn var(seed: u64, shape: &[usize], dtype: DType) -> Result<Var> {
    Var::from_tensor(&normal_numbers(seed, shape)?.to_dtype(dtype)?)
}

const KINDS: [RecurrentKind; 2] = [RecurrentKind::Lstm, RecurrentKind::Gru];

#[test]
fn gradients_are_right_in_both_directions() -> Result<()> {
    for kind in KINDS {
        let rows = kind.gates() * 3;
        let var = |seed, shape: &[usize]| var(seed, shape, DType::F64);
        let inputs = [
            var(1, &[2, 4, rows])?,
            var(2, &[rows, 3])?,
            var(3, &[rows])?,
        ];
        for reverse in [false, true] {
            let report = check_gradients(&inputs, |of| {
                recurrent(&of[0], &of[1], &of[2], kind, reverse)?.sqr()
            });
            assert!(report.is_right(), "{kind:?}: {report}");
        }
        assert!(recurrent(&inputs[0], &inputs[0], &inputs[2], kind, false).is_err());
    }
    Ok(())
}

/// States, and gradients of inputs, weight and bias for gradients of the states that differ, in `f64`.
fn results(
    sizes: (usize, usize, usize),
    kind: RecurrentKind,
    reverse: bool,
    dtype: DType,
) -> Result<Vec<Tensor>> {
    let (batch, length, width) = sizes;
    let rows = kind.gates() * width;
    let inputs = var(1, &[batch, length, rows], dtype)?;
    let weight = (normal_numbers(2, &[rows, width][..])? * (width as f64).sqrt().recip())?;
    let weight = Var::from_tensor(&weight.to_dtype(dtype)?)?;
    let bias = var(3, &[rows], dtype)?;
    let y = recurrent(&inputs, &weight, &bias, kind, reverse)?;
    let factors = normal_numbers(4, y.shape().clone())?.to_dtype(dtype)?;
    let gradients = (&y * factors)?.sum_all()?.backward()?;
    let of = |var: &Var| gradients.get(var).cloned();
    let all = [Some(y.detach()), of(&inputs), of(&weight), of(&bias)];
    let all = all.into_iter().flatten();
    let all: Result<Vec<_>> = all.map(|x| x.to_dtype(DType::F64)).collect();
    all
}

#[test]
fn kernels_have_the_numbers_of_composed_operations() -> Result<()> {
    // A single element; few and many sequences; widths that are not a multiple of a vector; work for several threads, one with nothing to do.
    let all = [
        (1, 1, 1),
        (3, 5, 7),
        (1, 9, 33),
        (1, 40, 64),
        (17, 6, 48),
        (40, 12, 64),
    ];
    for sizes in all {
        for kind in KINDS {
            for reverse in [false, true] {
                let found = results(sizes, kind, reverse, DType::F32)?;
                // Those of `f64` are composed of candle's operations.
                let exact = results(sizes, kind, reverse, DType::F64)?;
                assert_eq!((found.len(), exact.len()), (4, 4));
                for (index, (found, exact)) in found.iter().zip(&exact).enumerate() {
                    let apart = (found - exact)?.abs()?.max_all()?.to_scalar::<f64>()?;
                    let size = exact.abs()?.max_all()?.to_scalar::<f64>()?;
                    let of = format!("{kind:?} {sizes:?} {reverse} {index}");
                    assert!(apart <= 2e-6 * size, "{of}: {apart} of {size}");
                }
            }
        }
    }
    Ok(())
}

//! Tests of outputs and gradients in `f32` against those in `f64`, for every code path.

use candle_core::{DType, Result, Tensor, Var};

use super::blocked::BlockedLinear;
use super::*;
use crate::kernels::has_tiles;
use crate::{activated, normal_numbers};

/// Outputs, and gradients of input, weight and bias of a loss in which each output has a different weight.
fn results(
    [x, weight, bias]: &[Tensor; 3],
    dtype: DType,
    of: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<[Tensor; 4]> {
    let var = |given: &Tensor| Var::from_tensor(&given.to_dtype(dtype)?);
    let (x, weight, bias) = (var(x)?, var(weight)?, var(bias)?);
    let y = of(&x, &weight, &bias)?;
    let indices = Tensor::arange(0.0, y.elem_count() as f64, &crate::device::for_tests())?;
    let factors = ((indices * 0.7)?.cos()? + 0.5)?.reshape(y.shape())?;
    let factors = factors.to_dtype(DType::F32)?.to_dtype(dtype)?;
    let gradients = (&y * factors)?.sum_all()?.backward()?;
    let gradient = |var: &Var| gradients.get(var).cloned().expect("a gradient");
    let all = [gradient(&x), gradient(&weight), gradient(&bias)];
    let [of_x, of_weight, of_bias] = all;
    Ok([y, of_x, of_weight, of_bias])
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
    Ok(numbers.into_iter().map(f32::to_bits).collect())
}

#[test]
fn outputs_and_gradients_are_those_of_double_numbers() -> Result<()> {
    let shapes = [
        (768, 128, 200),
        (250, 40, 33),
        (9000, 16, 16),
        (64, 96, 256),
        (20, 33, 130),
        (3, 40, 50),
    ];
    for (rows, inputs, outputs) in shapes {
        let sizes = LinearSizes {
            rows,
            outputs,
            inputs,
            order: WeightOrder::OutputsInputs,
        };
        let is_blocked = BlockedLinear::of(sizes, Terms::Singles).is_some();
        assert_eq!(is_blocked, has_tiles() && rows >= 16, "{rows}");
        let given = [
            normal_numbers(0, (rows, inputs))?,
            normal_numbers(1, (outputs, inputs))?,
            normal_numbers(2, outputs)?,
        ];
        for function in [None].into_iter().chain(Function::ALL.map(Some)) {
            let order = WeightOrder::OutputsInputs;
            let together = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
                super::linear_with(x, (weight, order), Some(bias), function)
            };
            let found = results(&given, DType::F32, together)?;
            let exact = results(&given, DType::F64, together)?;
            // With the weight in the other order.
            let turned = [
                given[0].clone(),
                given[1].t()?.contiguous()?,
                given[2].clone(),
            ];
            let others = results(&turned, DType::F32, |x, weight, bias| {
                linear_with(
                    x,
                    (weight, WeightOrder::InputsOutputs),
                    Some(bias),
                    function,
                )
            })?;
            for (index, (found, other)) in found.iter().zip(&others).enumerate() {
                let other = if index == 2 {
                    other.t()?
                } else {
                    other.clone()
                };
                if is_blocked {
                    assert_eq!(bits(found)?, bits(&other)?, "{rows} {function:?} {index}");
                }
                let error = (found - other)?.abs()?.max_all()?.to_scalar::<f32>()?;
                assert!(error < 1e-3, "{rows} {function:?} {index}: {error}");
            }
            for (index, (found, exact)) in found.iter().zip(&exact).enumerate() {
                let error = (found.to_dtype(DType::F64)? - exact)?.abs()?;
                let error = error.max_all()?.to_scalar::<f64>()?;
                let size = exact.abs()?.max_all()?.to_scalar::<f64>()?;
                assert!(
                    error < 1e-5 * size,
                    "{rows} {function:?} {index}: {error} of {size}"
                );
            }
            // The same bits as one operation after the other.
            let apart = results(&given, DType::F32, |x, weight, bias| {
                let y = linear(x, weight, Some(bias))?;
                function.map_or(Ok(y.clone()), |function| activated(&y, function))
            })?;
            for (found, apart) in found.iter().zip(&apart) {
                assert_eq!(bits(found)?, bits(apart)?, "{rows} {function:?}");
            }
        }
        let without_bias = linear(&given[0], &given[1], None)?;
        let zeros = given[2].zeros_like()?;
        let with_zeros = linear(&given[0], &given[1], Some(&zeros))?;
        let difference = (without_bias - with_zeros)?.abs()?.max_all()?;
        assert!(difference.to_scalar::<f32>()? <= f32::EPSILON);
    }
    Ok(())
}

//! The optimizers compared with PyTorch's results, written by tests/reference/optimizers.py.

use candle_core::{DType, Tensor};
use serde_json::Value;

use super::OptimizerConfig;
use crate::gradients::Gradients;
use crate::init::Init;
use crate::parameters::Parameters;

const REFERENCE: &str = include_str!("../../../../tests/reference/optimizers.json");

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).expect("numbers")
}

fn tensor(reference: &Value, name: &str, values: &Value, dtype: DType) -> Tensor {
    let shape: Vec<usize> =
        serde_json::from_value(reference["shapes"][name].clone()).expect("a shape");
    let tensor = Tensor::from_vec(numbers(values), shape, &sconce_ops::device::for_tests())
        .expect("a tensor");
    tensor.to_dtype(dtype).expect("its type")
}

/// Initial values of the parameters.
fn parameters(reference: &Value, dtype: DType) -> Parameters {
    let mut parameters = Parameters::new(0, dtype, &sconce_ops::device::for_tests());
    for name in ["weight", "bias"] {
        let full = format!("fc.{name}");
        let start = tensor(reference, &full, &reference["start"][&full], dtype);
        let mut scope = parameters.scope("fc");
        scope
            .parameter(name, start.dims(), Init::ZEROS)
            .expect("one");
        let var = parameters.get(&full).expect("it").var();
        var.set(&start).expect("its start");
    }
    parameters
}

#[track_caller]
fn close(found: &Tensor, expected: &Value, tolerance: f64, what: &str) {
    let found: Vec<f64> = found
        .to_dtype(DType::F64)
        .and_then(|t| t.flatten_all()?.to_vec1())
        .expect("numbers");
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let allowed = tolerance * expected.abs().max(1e-2);
        assert!(
            (found - expected).abs() <= allowed,
            "{what}: {found} {expected}"
        );
    }
}

fn compare(dtype: DType, tolerance: f64) {
    let reference: Value = serde_json::from_str(REFERENCE).expect("JSON");
    let cases = reference["cases"].as_array().expect("cases");
    assert!(cases.len() > 10);
    for case in cases {
        let config: OptimizerConfig =
            serde_json::from_value(case["config"].clone()).expect("a config");
        let parameters = parameters(&reference, dtype);
        let mut optimizer = config.build(&parameters).expect("an optimizer");
        for step in reference["gradients"].as_array().expect("steps") {
            let mut gradients = Gradients::none(&parameters);
            for (index, parameter) in parameters.iter().enumerate() {
                let values = &step[parameter.name()];
                let gradient = tensor(&reference, parameter.name(), values, dtype);
                gradients.set(index, gradient);
            }
            optimizer.step(&parameters, &gradients).expect("a step");
        }
        let what = case["config"].to_string();
        for parameter in parameters.iter() {
            let expected = &case["parameters"][parameter.name()];
            close(parameter.tensor(), expected, tolerance, &what);
        }
        let state = optimizer.tensors(&parameters);
        let expected = case["state"].as_object().expect("a state");
        assert_eq!(state.len(), expected.len(), "{what}");
        for (name, tensor) in state {
            close(
                &tensor,
                &expected[&name],
                tolerance,
                &format!("{name} of {what}"),
            );
        }
    }
}

#[test]
fn parameters_and_moments_are_pytorchs_in_f64() {
    compare(DType::F64, 1e-9);
}

#[test]
fn parameters_and_moments_are_pytorchs_in_f32() {
    // Twenty roundings, and v − a² of RMSprop loses digits by cancellation.
    compare(DType::F32, 3e-5);
}

//! Lists of layers compared with PyTorch's results, written by tests/reference/layers.py.

use candle_core::{DType, Tensor, Var};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::build::untargeted;
use crate::parameters::Parameters;
use crate::{LayerConfig, Model, Pass, Signal, ops};

const REFERENCE: &str = include_str!("../../../../../tests/reference/layers.json");

#[derive(Deserialize)]
struct Case {
    layers: Vec<LayerConfig>,
    x: Input,
    y: Output,
    of_x: Option<Vec<f64>>,
    parameters: Map<String, Value>,
}

#[derive(Deserialize)]
struct Input {
    shape: Vec<usize>,
    tokens: bool,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct Output {
    shape: Vec<usize>,
    values: Vec<f64>,
    weights: Vec<f64>,
}

const BATCH: usize = 2;

fn batch(values: &[f64], shape: &[usize]) -> Tensor {
    let shape = [&[BATCH], shape].concat();
    Tensor::from_slice(values, shape, &ops::device::for_tests()).expect("a tensor")
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).expect("numbers")
}

#[track_caller]
fn close(found: &Tensor, expected: &[f64], what: &str) {
    let found = found.flatten_all().and_then(|flat| flat.to_vec1::<f64>());
    let found = found.expect("numbers");
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let allowed = 1e-9 * expected.abs().max(1.0);
        let difference = (found - expected).abs();
        assert!(difference <= allowed, "{what}: {found} {expected}");
    }
}

fn compare(case: &Case) {
    let what = serde_json::to_string(&case.layers).expect("JSON");
    let x = batch(&case.x.values, &case.x.shape);
    let (input, x) = if case.x.tokens {
        (
            Signal::tokens(case.x.shape[0], 7),
            x.to_dtype(DType::U32).expect("tokens"),
        )
    } else {
        (Signal::numbers(case.x.shape.clone()), x)
    };
    let mut parameters = Parameters::new(1, DType::F64, &ops::device::for_tests());
    let network = untargeted(&case.layers, &mut parameters, &input).expect("a model");
    assert_eq!(network.output().shape, case.y.shape, "{what}");
    let mut expected: Vec<&String> = case.parameters.keys().collect();
    let mut names: Vec<&str> = parameters
        .iter()
        .map(sconce_parameters::Parameter::name)
        .collect();
    expected.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, expected, "{what}");
    for parameter in parameters.iter() {
        let values = numbers(&case.parameters[parameter.name()]["values"]);
        let shape = parameter.tensor().dims();
        let value = Tensor::from_vec(values, shape, &ops::device::for_tests());
        parameter.var().set(&value.expect("a value")).expect("set");
    }
    let x = Var::from_tensor(&x).expect("a variable");
    let recording = ops::record();
    let y = network.forward(&x, &mut Pass::training()).expect("forward");
    close(&y, &case.y.values, &what);
    let loss = (y * batch(&case.y.weights, &case.y.shape)).and_then(|y| y.sum_all());
    let store = ops::backward(&loss.expect("a loss"), 1.0).expect("backward");
    drop(recording);
    if let Some(expected) = &case.of_x {
        close(store.get(&x).expect("a gradient"), expected, &what);
    }
    for parameter in parameters.iter() {
        let expected = numbers(&case.parameters[parameter.name()]["gradient"]);
        let gradient = store.get(parameter.tensor()).expect("a gradient");
        close(
            gradient,
            &expected,
            &format!("{} of {what}", parameter.name()),
        );
    }
}

#[test]
fn outputs_and_gradients_are_pytorchs() {
    let reference: Value = serde_json::from_str(REFERENCE).expect("JSON");
    let cases = reference["cases"].as_array().expect("cases");
    assert!(cases.len() >= 15, "{}", cases.len());
    for case in cases {
        compare(&serde_json::from_value(case.clone()).expect("a case"));
    }
}

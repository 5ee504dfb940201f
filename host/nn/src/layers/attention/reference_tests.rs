//! Attention as manifests say it, compared with the layers of `transformers`; written by tests/reference/attention.py.

use candle_core::{DType, Result, Tensor};
use serde_json::Value;

use crate::parameters::Parameters;
use crate::{Model, ModelConfig, Pass, Signal, Targets};

const REFERENCE: &str = include_str!("../../../../../tests/reference/attention.json");

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).expect("numbers")
}

fn size(value: &Value) -> usize {
    value.as_u64().expect("a size") as usize
}

/// Largest difference from what is expected, relative to its largest number, or to 1.
fn error(found: &Tensor, expected: &Value) -> f64 {
    let found = found
        .flatten_all()
        .and_then(|x| x.to_dtype(DType::F64)?.to_vec1::<f64>());
    let (found, expected) = (found.expect("numbers"), numbers(expected));
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
    let pairs = found.iter().zip(&expected);
    pairs.fold(0.0, |most: f64, (x, y)| most.max((x - y).abs())) / largest
}

fn check(reference: &Value, name: &str, case: &Value, dtype: DType) -> Result<()> {
    let device = sconce_ops::device::for_tests();
    let [rows, length, width] = ["rows", "length", "width"].map(|key| size(&reference[key]));
    let model = serde_json::json!({"kind": "sequential", "layers": [case["layer"]]});
    let model: ModelConfig = serde_json::from_value(model).expect("a model");
    let mut parameters = Parameters::new(0, dtype, &device);
    let targets = Targets::ClassPerPosition((0..width).map(|class| class.to_string()).collect());
    let network = model.build(&mut parameters, &Signal::numbers([length, width]), &targets);
    let network = network.expect("a network");
    let given = case["parameters"].as_object().expect("parameters");
    assert_eq!(parameters.len(), given.len(), "{name}");
    for (key, value) in given {
        let shape: Vec<usize> = value["shape"]
            .as_array()
            .expect("a shape")
            .iter()
            .map(size)
            .collect();
        let values = Tensor::from_vec(numbers(&value["values"]), shape, &device)?;
        parameters
            .get(&format!("attn.{key}"))
            .expect("a parameter")
            .assign(&values)?;
    }
    let x = Tensor::from_vec(numbers(&case["input"]), (rows, length, width), &device)?;
    let y = network.forward(&x.to_dtype(dtype)?, &mut Pass::training())?;
    let off = error(&y, &case["output"]);
    assert!(off < 1e-5, "{name} {dtype:?}: outputs off by {off}");
    let weights = Tensor::arange(0.0, y.elem_count() as f64, &device)?.cos()?;
    let loss = y
        .mul(&weights.reshape(y.shape())?.to_dtype(dtype)?)?
        .sum_all()?;
    let gradients = loss.backward()?;
    for (key, expected) in case["gradients"].as_object().expect("gradients") {
        let parameter = parameters.get(&format!("attn.{key}")).expect("a parameter");
        let off = error(
            gradients.get(parameter.tensor()).expect("a gradient"),
            expected,
        );
        assert!(
            off < 1e-5,
            "{name} {dtype:?}: gradient of {key} off by {off}"
        );
    }
    Ok(())
}

#[test]
fn layers_are_those_of_transformers() -> Result<()> {
    let reference: Value = serde_json::from_str(REFERENCE).expect("JSON");
    for (name, case) in reference["cases"].as_object().expect("cases") {
        for dtype in [DType::F64, DType::F32] {
            check(&reference, name, case, dtype)?;
        }
    }
    Ok(())
}

//! Probes compared with the same by `NumPy` and `SciPy` (`tests/reference/probes.py`).

use serde_json::Value;

use super::features::Features;
use super::linear::LinearProbe;
use super::neighbours::Neighbours;

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().expect("a list").iter();
    values
        .map(|value| value.as_f64().expect("a number"))
        .collect()
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a number")).expect("small")
}

fn features(case: &Value, part: &str) -> Features {
    let values = numbers(&case[part]["values"]);
    Features {
        values: values.iter().map(|value| *value as f32).collect(),
        width: number(&case["width"]),
        classes: classes(&case[part]["classes"]),
    }
}

fn classes(value: &Value) -> Vec<u32> {
    numbers(value)
        .into_iter()
        .map(|class| class as u32)
        .collect()
}

#[test]
fn probes_are_those_of_numpy() {
    let json = include_str!("../../../../../tests/reference/probes.json");
    let cases: Vec<Value> = serde_json::from_str(json).expect("JSON");
    for case in &cases {
        let (train, test) = (features(case, "train"), features(case, "test"));
        let count = number(&case["count"]);
        let linear = LinearProbe::fit(&train, count);
        let expected = case["loss"].as_f64().expect("a number");
        assert!((linear.loss(&train) - expected).abs() < 1e-9 * expected.max(1.0));
        for (found, expected) in linear.weights().iter().zip(numbers(&case["weights"])) {
            assert!((found - expected).abs() < 2e-3, "{found} {expected}");
        }
        assert_eq!(linear.classify(&test), classes(&case["linear"]));
        let votes = number(&case["votes"]);
        let neighbours = Neighbours::new(&train, count, votes).classify(&test);
        assert_eq!(neighbours, classes(&case["neighbours"]));
        let accuracy = test.accuracy(&neighbours);
        assert!((accuracy - case["accuracy"].as_f64().expect("a number")).abs() < 1e-12);
    }
}

#[test]
fn constant_features_and_zeros_have_no_say() {
    let train = Features {
        values: vec![1.0, 5.0, -1.0, 5.0, 2.0, 5.0, 0.0, 0.0],
        width: 2,
        classes: vec![0, 1, 0, 1],
    };
    assert_eq!(LinearProbe::fit(&train, 2).classify(&train), [0, 1, 0, 1]);
    assert_eq!(Neighbours::new(&train, 2, 1).classify(&train)[..2], [0, 1]);
}

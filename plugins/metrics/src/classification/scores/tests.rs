//! Compares with scikit-learn: `tests/reference/classification.json` and the script that generated it.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::classes::{highest, is_among};
use crate::classification::matrix::{Normalise, normalised};

const BY_CLASS: [Score; 5] = [
    Score::Precision,
    Score::Recall,
    Score::F1,
    Score::Specificity,
    Score::Jaccard,
];

fn cases() -> Vec<Value> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/classification.json");
    let text = std::fs::read_to_string(path).expect("the reference");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert!(!cases.is_empty());
    cases
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn rows(case: &Value) -> Vec<(usize, Vec<f64>)> {
    let targets = numbers(&case["targets"]);
    let scores = case["scores"].as_array().expect("a list");
    (targets.iter().zip(scores))
        .map(|(target, row)| (*target as usize, numbers(row)))
        .collect()
}

fn near(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{what}: {found} {expected}"
        );
    }
}

fn confusion(case: &Value) -> Confusion {
    let classes = number(&case["classes"]) as usize;
    let mut confusion = Confusion::default();
    for (target, row) in rows(case) {
        confusion.count(classes, target, highest(&row));
    }
    confusion
}

#[test]
fn scores_are_scikit_learns() {
    for case in cases() {
        let (confusion, expected) = (confusion(&case), &case["expected"]);
        let otherwise = number(&case["otherwise"]);
        for score in [
            Score::Accuracy,
            Score::BalancedAccuracy,
            Score::Mcc,
            Score::Kappa,
        ] {
            let found = confusion.score(score, Average::Macro, otherwise);
            near(&[found], &[number(&expected[score.name()])], score.name());
        }
        for score in BY_CLASS {
            let averages = [
                (Average::Macro, "macro"),
                (Average::Micro, "micro"),
                (Average::Weighted, "weighted"),
            ];
            for (average, name) in averages {
                let what = format!("{}/{name}", score.name());
                let found = confusion.score(score, average, otherwise);
                near(&[found], &[number(&expected[&what])], &what);
            }
            let what = format!("{}/none", score.name());
            near(
                &confusion.by_class(score, otherwise),
                &numbers(&expected[&what]),
                &what,
            );
        }
    }
}

#[test]
fn top_k_is_scikit_learns() {
    for case in cases() {
        for k in [1, 2, 3] {
            let rows = rows(&case);
            let hits = rows
                .iter()
                .filter(|(target, row)| is_among(row, *target, k))
                .count();
            let found = hits as f64 / rows.len() as f64;
            let what = format!("top{k}");
            near(&[found], &[number(&case["expected"][&what])], &what);
        }
    }
}

#[test]
fn confusion_matrices_are_normalised_as_scikit_learn_does() {
    for case in cases() {
        let confusion = confusion(&case);
        for (normalise, name) in [
            (Normalise::None, "none"),
            (Normalise::True, "true"),
            (Normalise::Predicted, "predicted"),
            (Normalise::All, "all"),
        ] {
            let what = format!("confusion/{name}");
            let expected = numbers(&case["expected"][&what]);
            near(&normalised(&confusion, normalise), &expected, &what);
        }
    }
}

#[test]
fn a_matrix_of_nothing_has_no_scores_and_one_may_grow() {
    let mut confusion = Confusion::default();
    assert!(
        confusion
            .score(Score::Accuracy, Average::Macro, 0.0)
            .is_nan()
    );
    confusion.count(2, 1, 0);
    confusion.count(3, 2, 2);
    confusion.count(2, 1, 0);
    assert_eq!(
        (confusion.at(1, 0), confusion.at(2, 2), confusion.total()),
        (2, 1, 3)
    );
}

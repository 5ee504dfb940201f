//! A model's outputs as people read them: classes with probabilities, numbers with names.

use candle_core::{D, DType, Result, Tensor};
use serde_json::{Map, Value, json};

use crate::data::Targets;
use crate::nn::ops::softmax;

/// What a model says of one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// A class: its index, and the probability of each.
    Class(usize, Vec<f64>),
    /// For each position a class and its probability.
    Classes(Vec<(usize, f64)>),
    /// Numbers, in the order of the targets' names.
    Numbers(Vec<f64>),
}

/// The predictions in a batch's outputs.
pub fn predictions(outputs: &Tensor, targets: &Targets) -> Result<Vec<Prediction>> {
    let outputs = outputs.detach().to_dtype(DType::F64)?;
    if let Targets::Numbers(_) = targets {
        let rows: Vec<Vec<f64>> = outputs.to_vec2()?;
        return Ok(rows.into_iter().map(Prediction::Numbers).collect());
    }
    let classes = outputs.dim(D::Minus1)?;
    let samples = outputs.dim(0)?;
    let rows: Vec<Vec<f64>> = softmax(&outputs.reshape(((), classes))?, false)?.to_vec2()?;
    let likeliest = |row: &[f64]| {
        let pairs = row.iter().copied().enumerate();
        pairs.fold((0, f64::NEG_INFINITY), |best, pair| {
            if pair.1 > best.1 { pair } else { best }
        })
    };
    if let Targets::ClassPerPosition(_) = targets {
        let positions = rows.len() / samples.max(1);
        let rows = rows.chunks(positions.max(1));
        return Ok(rows
            .map(|rows| Prediction::Classes(rows.iter().map(|row| likeliest(row)).collect()))
            .collect());
    }
    let rows = rows.into_iter();
    Ok(rows
        .map(|row| Prediction::Class(likeliest(&row).0, row))
        .collect())
}

/// The name at an index, or the index where there is none.
fn name(names: &[String], index: usize) -> String {
    let name = names.get(index).cloned();
    name.unwrap_or_else(|| index.to_string())
}

fn names(targets: &Targets) -> &[String] {
    match targets {
        Targets::Class(names) | Targets::ClassPerPosition(names) | Targets::Numbers(names) => names,
    }
}

impl Prediction {
    /// As an object: `index`, and `class` with `probability` and `probabilities`, or `classes` with
    /// `probabilities`, or `prediction`.
    pub fn json(&self, index: usize, targets: &Targets) -> Value {
        let names = names(targets);
        match self {
            Prediction::Class(class, probabilities) => {
                let all = probabilities.iter().enumerate();
                let all: Map<String, Value> = all
                    .map(|(index, p)| (name(names, index), json!(p)))
                    .collect();
                json!({
                    "index": index,
                    "class": name(names, *class),
                    "probability": probabilities.get(*class),
                    "probabilities": all,
                })
            }
            Prediction::Classes(positions) => {
                let classes = positions.iter().map(|(class, _)| name(names, *class));
                let probabilities = positions.iter().map(|(_, probability)| *probability);
                json!({
                    "index": index,
                    "classes": classes.collect::<Vec<_>>(),
                    "probabilities": probabilities.collect::<Vec<_>>(),
                })
            }
            Prediction::Numbers(numbers) => {
                let all = numbers.iter().enumerate();
                let all: Map<String, Value> = all
                    .map(|(index, x)| (name(names, index), json!(x)))
                    .collect();
                json!({ "index": index, "prediction": all })
            }
        }
    }

    /// The header of the rows.
    pub fn header(targets: &Targets) -> Vec<String> {
        let own = |columns: &[&str]| columns.iter().map(|&column| column.to_owned()).collect();
        match targets {
            Targets::Class(names) => {
                let mut header: Vec<String> = own(&["index", "class", "probability"]);
                header.extend(names.iter().map(|name| format!("probability of {name}")));
                header
            }
            Targets::ClassPerPosition(_) => own(&["index", "position", "class", "probability"]),
            Targets::Numbers(names) => {
                let mut header: Vec<String> = own(&["index"]);
                header.extend(names.iter().cloned());
                header
            }
        }
    }

    /// As rows of a table: one, or one for each position.
    pub fn rows(&self, index: usize, targets: &Targets) -> Vec<Vec<String>> {
        let names = names(targets);
        match self {
            Prediction::Class(class, probabilities) => {
                let likeliest = probabilities.get(*class).copied().unwrap_or(f64::NAN);
                let mut row = vec![
                    index.to_string(),
                    name(names, *class),
                    likeliest.to_string(),
                ];
                row.extend(probabilities.iter().map(f64::to_string));
                vec![row]
            }
            Prediction::Classes(positions) => {
                let rows = positions.iter().enumerate();
                rows.map(|(position, (class, probability))| {
                    vec![
                        index.to_string(),
                        position.to_string(),
                        name(names, *class),
                        probability.to_string(),
                    ]
                })
                .collect()
            }
            Prediction::Numbers(numbers) => {
                let mut row = vec![index.to_string()];
                row.extend(numbers.iter().map(f64::to_string));
                vec![row]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_class_is_the_likeliest_and_all_have_probabilities() {
        let targets = Targets::Class(named(&["cat", "dog"]));
        let outputs = Tensor::new(&[[0.0_f32, 0.0], [0.0, 3.0_f32.ln()]], &Device::Cpu);
        let found = predictions(&outputs.expect("outputs"), &targets).expect("predictions");
        assert_eq!(found[0], Prediction::Class(0, vec![0.5, 0.5]));
        let json = found[1].json(7, &targets);
        assert_eq!(json["class"], "dog");
        assert_eq!(json["index"], 7);
        let p = json["probabilities"]["cat"].as_f64().expect("a number");
        assert!((p - 0.25).abs() < 1e-7, "{p}");
        assert_eq!(
            found[1].rows(7, &targets)[0].len(),
            Prediction::header(&targets).len()
        );
    }

    #[test]
    fn positions_and_numbers_have_forms_of_their_own() {
        let outputs = Tensor::new(&[[[1.0_f32, 0.0], [0.0, 1.0]]], &Device::Cpu).expect("outputs");
        let targets = Targets::ClassPerPosition(named(&["a", "b"]));
        let found = predictions(&outputs, &targets).expect("predictions");
        assert_eq!(found[0].json(0, &targets)["classes"], json!(["a", "b"]));
        assert_eq!(found[0].rows(0, &targets)[1][..3], named(&["0", "1", "b"]));
        let targets = Targets::Numbers(named(&["x", "y"]));
        let outputs = Tensor::new(&[[1.5_f32, -2.0]], &Device::Cpu).expect("outputs");
        let found = predictions(&outputs, &targets).expect("predictions");
        assert_eq!(
            found[0].json(0, &targets)["prediction"],
            json!({"x": 1.5, "y": -2.0})
        );
        assert_eq!(found[0].rows(0, &targets), [named(&["0", "1.5", "-2"])]);
    }
}

//! A model's outputs in readable form: classes with probabilities, values with names.

use candle_core::{D, DType, Result, Tensor};
use sconce_ops::device::copy_to_host;
use serde_json::{Map, Value, json};

use crate::data::{SampleOrigin, Targets};
use crate::nn::ops::softmax;

/// Prediction for one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// Index of the most likely class, and the probability of every class.
    Class(usize, Vec<f64>),
    /// For each position, the most likely class and its probability.
    Classes(Vec<(usize, f64)>),
    /// Values, in the order of the targets' names.
    Numbers(Vec<f64>),
    /// Elements of an output that has no names, row-major.
    Vector(Vec<f64>),
}

/// Converts a batch's outputs to predictions.
pub fn predictions(outputs: &Tensor, targets: &Targets) -> Result<Vec<Prediction>> {
    let outputs = copy_to_host(&outputs.detach())?.to_dtype(DType::F64)?;
    if let Targets::None = targets {
        return vectors(&outputs);
    }
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
    if let Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) = targets {
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

/// Converts a batch's outputs of any meaning, (samples, …).
pub fn vectors(outputs: &Tensor) -> Result<Vec<Prediction>> {
    let outputs = copy_to_host(&outputs.detach())?.to_dtype(DType::F64)?;
    let samples = outputs.dim(0)?;
    let rows: Vec<Vec<f64>> = outputs.reshape((samples, ()))?.to_vec2()?;
    Ok(rows.into_iter().map(Prediction::Vector).collect())
}

/// Name at an index, or the index itself if it has none.
fn name(names: &[String], index: usize) -> String {
    let name = names.get(index).cloned();
    name.unwrap_or_else(|| index.to_string())
}

/// Known target of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownTarget {
    /// A class.
    Class(u32),
    /// A class for each position.
    Classes(Vec<u32>),
    /// Values, in the order of the targets' names.
    Numbers(Vec<f64>),
}

/// Converts a batch's targets.
pub fn known(batch: &Tensor, targets: &Targets) -> Result<Vec<KnownTarget>> {
    Ok(match targets {
        Targets::Class(_) => {
            let classes: Vec<u32> = batch.to_vec1()?;
            classes.into_iter().map(KnownTarget::Class).collect()
        }
        Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
            let rows: Vec<Vec<u32>> = batch.to_vec2()?;
            rows.into_iter().map(KnownTarget::Classes).collect()
        }
        Targets::None => Vec::new(),
        Targets::Numbers(_) => {
            let rows: Vec<Vec<f64>> = batch.to_dtype(DType::F64)?.to_vec2()?;
            rows.into_iter().map(KnownTarget::Numbers).collect()
        }
    })
}

/// Sample that a prediction belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Position among the predicted samples.
    pub index: usize,
    /// Row or file of the data set it was read from.
    pub origin: Option<SampleOrigin>,
    /// Its target, if known.
    pub target: Option<KnownTarget>,
}

impl Sample {
    /// Keys and values that come first in every form.
    fn json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("index".to_owned(), json!(self.index));
        match &self.origin {
            Some(SampleOrigin::Row(row)) => object.insert("row".to_owned(), json!(row)),
            Some(SampleOrigin::File(file)) => object.insert("file".to_owned(), json!(file)),
            None => None,
        };
        object
    }

    fn cells(&self) -> Vec<String> {
        let origin = self.origin.as_ref().map(|origin| match origin {
            SampleOrigin::Row(row) => row.to_string(),
            SampleOrigin::File(file) => file.clone(),
        });
        std::iter::once(self.index.to_string())
            .chain(origin)
            .collect()
    }

    fn target_json(&self, targets: &Targets) -> Option<(&'static str, Value)> {
        let names = targets.names();
        Some(match self.target.as_ref()? {
            KnownTarget::Class(class) => ("target", json!(name(names, *class as usize))),
            KnownTarget::Classes(classes) => {
                let classes = classes.iter().map(|class| name(names, *class as usize));
                ("targets", json!(classes.collect::<Vec<_>>()))
            }
            KnownTarget::Numbers(numbers) => {
                let all = numbers.iter().enumerate();
                let all: Map<String, Value> = all
                    .map(|(index, number)| (name(names, index), json!(number)))
                    .collect();
                ("target", Value::Object(all))
            }
        })
    }

    /// Cells of a row's targets; `position` is the row's, where each position has its own row.
    fn target_cells(&self, targets: &Targets, position: usize) -> Vec<String> {
        let names = targets.names();
        match &self.target {
            None => Vec::new(),
            Some(KnownTarget::Class(class)) => vec![name(names, *class as usize)],
            Some(KnownTarget::Classes(classes)) => {
                let class = classes.get(position);
                vec![class.map_or_else(String::new, |class| name(names, *class as usize))]
            }
            Some(KnownTarget::Numbers(numbers)) => numbers.iter().map(f64::to_string).collect(),
        }
    }
}

impl Prediction {
    /// Returns a JSON object: `index`, `row` or `file`, and `class` with `probability` and `probabilities`, or
    /// `classes` with `probabilities`, or `prediction`, or `output`; `target` or `targets` if known.
    pub fn json(&self, sample: &Sample, targets: &Targets) -> Value {
        let names = targets.names();
        let mut object = sample.json();
        let own = match self {
            Prediction::Class(class, probabilities) => {
                let all = probabilities.iter().enumerate();
                let all: Map<String, Value> = all
                    .map(|(index, p)| (name(names, index), json!(p)))
                    .collect();
                json!({
                    "class": name(names, *class),
                    "probability": probabilities.get(*class),
                    "probabilities": all,
                })
            }
            Prediction::Classes(positions) => {
                let classes = positions.iter().map(|(class, _)| name(names, *class));
                let probabilities = positions.iter().map(|(_, probability)| *probability);
                json!({
                    "classes": classes.collect::<Vec<_>>(),
                    "probabilities": probabilities.collect::<Vec<_>>(),
                })
            }
            Prediction::Vector(elements) => json!({ "output": elements }),
            Prediction::Numbers(numbers) => {
                let all = numbers.iter().enumerate();
                let all: Map<String, Value> = all
                    .map(|(index, x)| (name(names, index), json!(x)))
                    .collect();
                json!({ "prediction": all })
            }
        };
        if let Value::Object(own) = own {
            object.extend(own);
        }
        if let Some((key, target)) = sample.target_json(targets) {
            object.insert(key.to_owned(), target);
        }
        Value::Object(object)
    }

    /// Header of the rows, for samples with the same fields as this one, and predictions of the same length.
    pub fn header(&self, sample: &Sample, targets: &Targets) -> Vec<String> {
        let mut header = vec!["index"];
        header.extend(match &sample.origin {
            Some(SampleOrigin::Row(_)) => Some("row"),
            Some(SampleOrigin::File(_)) => Some("file"),
            None => None,
        });
        header.extend(match targets {
            _ if matches!(self, Prediction::Vector(_)) => &[][..],
            Targets::Class(_) => &["class", "probability"],
            Targets::ClassPerPosition(_) => &["position", "class", "probability"],
            Targets::TokenPerPosition(_) => &["position", "token", "probability"],
            Targets::Numbers(_) | Targets::None => &[],
        });
        let mut header: Vec<String> = header.into_iter().map(str::to_owned).collect();
        match (self, targets) {
            (Prediction::Vector(elements), _) => {
                header.extend((0..elements.len()).map(|index| format!("output {index}")));
            }
            (_, Targets::Class(names)) => {
                header.extend(names.iter().map(|name| format!("probability of {name}")));
            }
            (_, Targets::Numbers(names)) => header.extend(names.iter().cloned()),
            _ => {}
        }
        if sample.target.is_some() {
            match targets {
                Targets::Numbers(names) => {
                    header.extend(names.iter().map(|name| format!("target of {name}")));
                }
                _ => header.push("target".to_owned()),
            }
        }
        header
    }

    /// Formats the prediction as rows of a table: one, or one per position.
    pub fn rows(&self, sample: &Sample, targets: &Targets) -> Vec<Vec<String>> {
        let names = targets.names();
        let cells = sample.cells();
        let row = |own: Vec<String>, position: usize| {
            [&cells[..], &own, &sample.target_cells(targets, position)].concat()
        };
        match self {
            Prediction::Class(class, probabilities) => {
                let likeliest = probabilities.get(*class).copied().unwrap_or(f64::NAN);
                let mut own = vec![name(names, *class), likeliest.to_string()];
                own.extend(probabilities.iter().map(f64::to_string));
                vec![row(own, 0)]
            }
            Prediction::Classes(positions) => {
                let rows = positions.iter().enumerate();
                rows.map(|(position, (class, probability))| {
                    let own = vec![
                        position.to_string(),
                        name(names, *class),
                        probability.to_string(),
                    ];
                    row(own, position)
                })
                .collect()
            }
            Prediction::Numbers(numbers) | Prediction::Vector(numbers) => {
                vec![row(numbers.iter().map(f64::to_string).collect(), 0)]
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
        let mut sample = Sample {
            index: 7,
            ..Sample::default()
        };
        let json = found[1].json(&sample, &targets);
        assert_eq!(json["class"], "dog");
        assert_eq!(json["index"], 7);
        assert!(json.get("row").is_none() && json.get("target").is_none());
        let p = json["probabilities"]["cat"].as_f64().expect("a number");
        assert!((p - 0.25).abs() < 1e-7, "{p}");
        for origin in [
            None,
            Some(SampleOrigin::Row(41)),
            Some(SampleOrigin::File("cat/7.png".to_owned())),
        ] {
            for target in [None, Some(KnownTarget::Class(0))] {
                (sample.origin, sample.target) = (origin.clone(), target);
                let (row, header) = (
                    &found[1].rows(&sample, &targets)[0],
                    found[1].header(&sample, &targets),
                );
                assert_eq!(row.len(), header.len(), "{header:?}");
            }
        }
        let json = found[1].json(&sample, &targets);
        assert_eq!(
            (&json["file"], &json["target"]),
            (&json!("cat/7.png"), &json!("cat"))
        );
    }

    #[test]
    fn positions_and_numbers_have_forms_of_their_own() {
        let outputs = Tensor::new(&[[[1.0_f32, 0.0], [0.0, 1.0]]], &Device::Cpu).expect("outputs");
        let targets = Targets::ClassPerPosition(named(&["a", "b"]));
        let found = predictions(&outputs, &targets).expect("predictions");
        let sample = |target| Sample {
            target,
            ..Sample::default()
        };
        let first = sample(Some(KnownTarget::Classes(vec![1, 0])));
        let json = found[0].json(&first, &targets);
        assert_eq!(json["classes"], json!(["a", "b"]));
        assert_eq!(json["targets"], json!(["b", "a"]));
        let row = &found[0].rows(&first, &targets)[1];
        assert_eq!(row[..3], named(&["0", "1", "b"]));
        assert_eq!(row[4], "a");
        let targets = Targets::Numbers(named(&["x", "y"]));
        let outputs = Tensor::new(&[[1.5_f32, -2.0]], &Device::Cpu).expect("outputs");
        let found = predictions(&outputs, &targets).expect("predictions");
        assert_eq!(
            found[0].json(&sample(None), &targets)["prediction"],
            json!({"x": 1.5, "y": -2.0})
        );
        let with_targets = sample(Some(KnownTarget::Numbers(vec![1.0, 2.5])));
        assert_eq!(
            found[0].rows(&with_targets, &targets),
            [named(&["0", "1.5", "-2", "1", "2.5"])]
        );
        assert_eq!(
            found[0].header(&with_targets, &targets),
            named(&["index", "x", "y", "target of x", "target of y"])
        );
        let vectors = Tensor::new(&[[[1.5_f32], [-2.0]]], &Device::Cpu).expect("outputs");
        let found = predictions(&vectors, &Targets::None).expect("predictions");
        let plain = sample(None);
        assert_eq!(
            found[0].json(&plain, &Targets::None)["output"],
            json!([1.5, -2.0])
        );
        let header = found[0].header(&plain, &Targets::None);
        assert_eq!(header, named(&["index", "output 0", "output 1"]));
        assert_eq!(
            found[0].rows(&plain, &Targets::None),
            [named(&["0", "1.5", "-2"])]
        );
    }
}

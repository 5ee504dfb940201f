//! Scaling of numeric targets: the loss is computed from scaled ones, everything else in the data's own units.

use candle_core::{Device, Result, Tensor};
use schemars::JsonSchema;
use sconce_nn::onnx::{Graph, Value};
use serde::{Deserialize, Serialize};

use sconce_base::exact::Exact;

/// How numeric targets are scaled for the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetScale {
    /// To mean 0 and standard deviation 1 over the training samples.
    Standard,
    /// Their natural logarithms, scaled so: for positive numbers of different orders, such as prices.
    Log,
    /// The logarithms of 1 + the number, scaled so: for counts.
    Log1p,
}

impl TargetScale {
    /// Returns the name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            TargetScale::Standard => "standard",
            TargetScale::Log => "log",
            TargetScale::Log1p => "log1p",
        }
    }

    /// Returns what is added before a logarithm is taken; none if none is.
    fn offset(self) -> Option<f64> {
        match self {
            TargetScale::Standard => None,
            TargetScale::Log => Some(0.0),
            TargetScale::Log1p => Some(1.0),
        }
    }

    /// Whether a target can be scaled.
    pub(crate) fn takes(self, value: f32) -> bool {
        self.offset()
            .is_none_or(|offset| f64::from(value) + offset > 0.0)
    }

    /// The least that targets must exceed, for messages.
    pub(crate) fn bound(self) -> &'static str {
        match self {
            TargetScale::Standard | TargetScale::Log => "0",
            TargetScale::Log1p => "-1",
        }
    }

    fn of(self, value: f64) -> f64 {
        self.offset().map_or(value, |offset| (value + offset).ln())
    }
}

/// A scale with its numbers, learnt from the training samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredScaling", into = "StoredScaling")]
pub struct TargetScaling {
    scale: TargetScale,
    /// Mean and standard deviation of each target, after the logarithm.
    moments: Vec<[f64; 2]>,
}

/// Serialised form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredScaling {
    scale: TargetScale,
    mean: Vec<Exact>,
    deviation: Vec<Exact>,
}

impl From<TargetScaling> for StoredScaling {
    fn from(scaling: TargetScaling) -> StoredScaling {
        let [mean, deviation] = [0, 1].map(|place| {
            scaling
                .moments
                .iter()
                .map(|pair| Exact(pair[place]))
                .collect()
        });
        StoredScaling {
            scale: scaling.scale,
            mean,
            deviation,
        }
    }
}

impl TryFrom<StoredScaling> for TargetScaling {
    type Error = String;

    fn try_from(stored: StoredScaling) -> std::result::Result<TargetScaling, String> {
        if stored.mean.len() != stored.deviation.len() {
            return Err("there are as many means as deviations of targets".to_owned());
        }
        let pairs = stored.mean.iter().zip(&stored.deviation);
        let moments: Vec<[f64; 2]> = pairs
            .map(|(mean, deviation)| [mean.0, deviation.0])
            .collect();
        let is_valid = |[mean, deviation]: &[f64; 2]| {
            mean.is_finite() && deviation.is_finite() && *deviation > 0.0
        };
        if !moments.iter().all(is_valid) {
            return Err("means of targets are finite, deviations positive".to_owned());
        }
        Ok(TargetScaling {
            scale: stored.scale,
            moments,
        })
    }
}

impl TargetScaling {
    /// Fits a scale to the `training` samples among `values`, `width` of each sample. All of them must be such as the
    /// scale [takes](TargetScale::takes). A target that is always the same is only shifted.
    pub(crate) fn fit(
        scale: TargetScale,
        values: &[f32],
        width: usize,
        training: &[u32],
    ) -> TargetScaling {
        let column = |place: usize| {
            training.iter().filter_map(move |&sample| {
                let value = values.get(sample as usize * width + place)?;
                Some(scale.of(f64::from(*value)))
            })
        };
        let moments = (0..width).map(|place| {
            let count = training.len().max(1) as f64;
            let mean = column(place).sum::<f64>() / count;
            let squares = column(place).map(|value| (value - mean) * (value - mean));
            let deviation = (squares.sum::<f64>() / count).sqrt();
            let deviation = if deviation > 0.0 { deviation } else { 1.0 };
            [mean, deviation]
        });
        TargetScaling {
            scale,
            moments: moments.collect(),
        }
    }

    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Returns how it scales.
    pub fn scale(&self) -> TargetScale {
        self.scale
    }

    /// Scales targets in the data's own units, (samples, targets).
    ///
    /// # Errors
    ///
    /// An error of candle.
    pub fn scaled(&self, targets: &Tensor) -> Result<Tensor> {
        let logarithms = match self.scale.offset() {
            None => targets.clone(),
            Some(offset) => (targets + offset)?.log()?,
        };
        let [mean, deviation] = self.rows(targets)?;
        logarithms.broadcast_sub(&mean)?.broadcast_div(&deviation)
    }

    /// Returns a model's outputs, which are scaled, in the data's own units.
    ///
    /// # Errors
    ///
    /// An error of candle.
    pub fn original(&self, outputs: &Tensor) -> Result<Tensor> {
        let [mean, deviation] = self.rows(outputs)?;
        let logarithms = outputs.broadcast_mul(&deviation)?.broadcast_add(&mean)?;
        match self.scale.offset() {
            None => Ok(logarithms),
            Some(offset) => logarithms.exp()? - offset,
        }
    }

    /// As [`original`](TargetScaling::original), in a graph of ONNX.
    pub fn onnx(&self, graph: &mut Graph, outputs: &Value) -> Value {
        let [mean, deviation] = [0, 1].map(|place| {
            let numbers: Vec<f32> = self.moments.iter().map(|pair| pair[place] as f32).collect();
            graph.numbers(&numbers, &[1, numbers.len()])
        });
        let scaled = graph.of_two("Mul", outputs, &deviation);
        let logarithms = graph.of_two("Add", &scaled, &mean);
        let Some(offset) = self.scale.offset() else {
            return logarithms;
        };
        let values = graph.node("Exp", &[&logarithms], &[]);
        let offset = graph.number(offset);
        graph.of_two("Sub", &values, &offset)
    }

    /// Means and deviations as rows like those of a tensor.
    fn rows(&self, like: &Tensor) -> Result<[Tensor; 2]> {
        let row = |place: usize| {
            let values: Vec<f64> = self.moments.iter().map(|pair| pair[place]).collect();
            let row = Tensor::from_vec(values, (1, self.len()), &Device::Cpu)?;
            row.to_dtype(like.dtype())?.to_device(like.device())
        };
        Ok([row(0)?, row(1)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f64]) -> Tensor {
        Tensor::from_slice(values, (values.len() / 2, 2), &Device::Cpu).expect("a tensor")
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        tensor
            .flatten_all()
            .and_then(|t| t.to_vec1())
            .expect("numbers")
    }

    #[test]
    fn training_targets_get_mean_0_and_deviation_1_and_come_back() {
        // Two targets; the last sample is not of the training.
        let data = [1.0_f32, 10.0, 2.0, 1000.0, 4.0, 100.0, 9.0, 5.0];
        let exact: Vec<f64> = data.iter().map(|&value| f64::from(value)).collect();
        for scale in [TargetScale::Standard, TargetScale::Log, TargetScale::Log1p] {
            let scaling = TargetScaling::fit(scale, &data, 2, &[0, 1, 2]);
            let scaled = scaling.scaled(&tensor(&exact)).expect("scaled");
            let all = values(&scaled);
            for place in [0, 1] {
                let column: Vec<f64> = all.iter().skip(place).step_by(2).take(3).copied().collect();
                let mean = column.iter().sum::<f64>() / 3.0;
                let square = column.iter().map(|x| x * x).sum::<f64>() / 3.0;
                assert!(
                    mean.abs() < 1e-12 && (square - 1.0).abs() < 1e-12,
                    "{scale:?}"
                );
            }
            let back = values(&scaling.original(&scaled).expect("original"));
            for (back, exact) in back.iter().zip(&exact) {
                assert!(
                    (back - exact).abs() < 1e-9 * exact,
                    "{scale:?}: {back} {exact}"
                );
            }
            let text = serde_json::to_string(&scaling).expect("JSON");
            assert_eq!(
                serde_json::from_str::<TargetScaling>(&text).expect("it"),
                scaling
            );
        }
        // By hand: ln of 1, 2, 4 has the mean ln 2 and the deviation ln 2 · √(2/3).
        let scaling = TargetScaling::fit(TargetScale::Log, &data, 2, &[0, 1, 2]);
        let two = std::f64::consts::LN_2;
        let [mean, deviation] = scaling.moments[0];
        assert!(
            (mean - two).abs() < 1e-12 && (deviation - two * (2.0_f64 / 3.0).sqrt()).abs() < 1e-12
        );
    }

    #[test]
    fn what_has_no_logarithm_is_known_and_a_constant_only_shifted() {
        assert!(TargetScale::Standard.takes(-5.0));
        assert!(!TargetScale::Log.takes(0.0) && TargetScale::Log.takes(1e-30));
        assert!(TargetScale::Log1p.takes(0.0) && !TargetScale::Log1p.takes(-1.0));
        let scaling = TargetScaling::fit(TargetScale::Standard, &[3.0, 3.0], 1, &[0, 1]);
        assert_eq!(scaling.moments, [[3.0, 1.0]]);
        for damaged in [
            r#"{"scale": "log", "mean": ["1.0"], "deviation": ["0.0"]}"#,
            r#"{"scale": "log", "mean": ["NaN"], "deviation": ["1.0"]}"#,
            r#"{"scale": "log", "mean": [], "deviation": ["1.0"]}"#,
        ] {
            assert!(
                serde_json::from_str::<TargetScaling>(damaged).is_err(),
                "{damaged}"
            );
        }
    }
}

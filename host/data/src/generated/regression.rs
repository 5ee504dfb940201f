//! Regression with known coefficients, drawn from the seed, and noise.
//!
//! Sample i of a split depends only on (seed, split, i), the coefficients only on the seed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::range::range;
use crate::numbers::{NumberDataset, Samples, TargetValues};
use crate::preprocessing::GeneratedSamples;
use crate::{DataError, Dataset, Preprocessing, Splits, Targets, Transform};
use sconce_ops::random;

/// A regression problem with coefficients drawn from the seed, and noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RegressionConfig {
    /// Number of training samples.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub train: usize,
    /// Number of validation samples; 0 for no validation.
    #[schemars(range(max = 10_000_000))]
    pub val: usize,
    /// Number of test samples; 0 for no test.
    #[schemars(range(max = 10_000_000))]
    pub test: usize,
    /// Number of inputs per sample, each standard normal.
    #[schemars(range(min = 1, max = 10_000))]
    pub features: usize,
    /// Number of inputs, the first ones, on which the target depends.
    #[schemars(range(min = 1, max = 10_000))]
    pub informative: usize,
    /// Standard deviation of the noise on the target.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub noise: f64,
    /// Whether the target also depends on products of neighbouring inputs.
    pub nonlinear: bool,
}

impl Default for RegressionConfig {
    fn default() -> Self {
        RegressionConfig {
            train: 1000,
            val: 200,
            test: 200,
            features: 8,
            informative: 4,
            noise: 0.1,
            nonlinear: false,
        }
    }
}

/// Target without noise: bias + Σ linearᵢ · xᵢ + Σ productsᵢ · xᵢ · xᵢ₊₁, where the last informative
/// input is followed by the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficients {
    /// Constant term.
    pub bias: f64,
    /// Coefficient of each informative input, from −2 to 2.
    pub linear: Vec<f64>,
    /// Coefficient of each product, from −1 to 1; empty for linear regression.
    pub products: Vec<f64>,
}

impl Coefficients {
    /// Draws the coefficients for a seed.
    pub fn of(config: &RegressionConfig, seed: u64) -> Coefficients {
        let mut stream = random::stream(seed, "regression/coefficients", 0, 0);
        let bias = stream.uniform(-1.0, 1.0);
        let linear = (0..config.informative).map(|_| stream.uniform(-2.0, 2.0));
        let linear = linear.collect();
        let products = if config.nonlinear {
            config.informative
        } else {
            0
        };
        let products = (0..products).map(|_| stream.uniform(-1.0, 1.0)).collect();
        Coefficients {
            bias,
            linear,
            products,
        }
    }

    /// Returns the target for these inputs.
    pub fn target(&self, inputs: &[f64]) -> f64 {
        let products = inputs
            .iter()
            .zip(inputs.iter().take(self.linear.len()).skip(1));
        let last = inputs.get(self.linear.len().saturating_sub(1));
        let products = products.chain(last.zip(inputs.first()));
        let linear = self.linear.iter().zip(inputs).map(|(c, x)| c * x);
        let products = self.products.iter().zip(products);
        let products = products.map(|(c, (x, y))| c * x * y);
        self.bias + linear.sum::<f64>() + products.sum::<f64>()
    }

    /// Writes out the formula.
    fn formula(&self, noise: f64) -> String {
        const SHOWN: usize = 6;
        let mut terms = vec![format!("target = {:.4}", self.bias)];
        let linear = self.linear.iter().enumerate().take(SHOWN);
        terms.extend(linear.map(|(i, c)| format!("{c:+.4}·x{}", i + 1)));
        if self.linear.len() > SHOWN {
            terms.push("+ …".to_owned());
        }
        let products = self.products.iter().enumerate().take(SHOWN);
        let next = |i: usize| (i + 1) % self.linear.len().max(1) + 1;
        terms.extend(products.map(|(i, c)| format!("{c:+.4}·x{}·x{}", i + 1, next(i))));
        if self.products.len() > SHOWN {
            terms.push("+ …".to_owned());
        }
        format!("{}, noise of standard deviation {noise}", terms.join(" "))
    }
}

/// Draws the samples.
pub(crate) fn load(config: &RegressionConfig, seed: u64) -> Result<Splits, DataError> {
    let (features, informative) = (config.features, config.informative);
    range("train", "at least 1", config.train as f64, config.train > 0)?;
    range("features", "at least 1", features as f64, features > 0)?;
    let of_all = (1..=features).contains(&informative);
    let found = informative as f64;
    range("informative", "from 1 to `data.features`", found, of_all)?;
    let noise = config.noise;
    range(
        "noise",
        "from 0 to 1000",
        noise,
        (0.0..=1000.0).contains(&noise),
    )?;
    let coefficients = Coefficients::of(config, seed);
    let targets = Targets::Numbers(vec!["target".to_owned()]);
    let dataset = |split: &str, count: usize| {
        let samples = draw(config, &coefficients, seed, split, count);
        NumberDataset::all(samples, targets.clone())
    };
    let phase = |split: &str, count: usize| -> Option<Arc<dyn Dataset>> {
        (count > 0).then(|| Arc::new(dataset(split, count)) as Arc<dyn Dataset>)
    };
    let formula = vec![coefficients.formula(noise)];
    Ok(Splits {
        train: Arc::new(dataset("train", config.train).with_description(formula)),
        val: phase("val", config.val),
        test: phase("test", config.test),
        preprocessing: Arc::new(Preprocessing::of(Transform::Generated(GeneratedSamples {
            shape: vec![features],
            targets: targets.clone(),
        }))),
        files: Vec::new(),
    })
}

fn draw(
    config: &RegressionConfig,
    coefficients: &Coefficients,
    seed: u64,
    split: &str,
    count: usize,
) -> Samples {
    let purpose = format!("regression/{split}");
    let mut inputs = Vec::with_capacity(count * config.features);
    let mut targets = Vec::with_capacity(count);
    for index in 0..count {
        let mut stream = random::stream(seed, &purpose, 0, index as u64);
        let sample: Vec<f64> = (0..config.features).map(|_| stream.normal()).collect();
        let noise = config.noise * stream.normal();
        targets.push((coefficients.target(&sample) + noise) as f32);
        inputs.extend(sample.iter().map(|&x| x as f32));
    }
    Samples {
        inputs: inputs.into(),
        shape: vec![config.features],
        values: TargetValues::Numbers(targets),
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RegressionConfig {
        RegressionConfig {
            train: 50,
            val: 3,
            test: 0,
            features: 5,
            informative: 3,
            noise: 0.0,
            nonlinear: false,
        }
    }

    fn rows(splits: &Splits) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
        let all: Vec<u32> = (0..splits.train.len() as u32).collect();
        let batch = splits.train.gather(&all, 0).expect("all samples");
        let inputs = batch.inputs.to_vec2().expect("rows");
        (inputs, batch.targets.to_vec2().expect("numbers"))
    }

    #[test]
    fn without_noise_the_targets_are_the_formulas() {
        for nonlinear in [false, true] {
            let config = RegressionConfig {
                nonlinear,
                ..config()
            };
            let splits = load(&config, 3).expect("data");
            assert_eq!(splits.val.as_ref().map(|val| val.len()), Some(3));
            assert!(splits.test.is_none());
            let c = Coefficients::of(&config, 3);
            let p = |i: usize| c.products.get(i).copied().unwrap_or(0.0);
            let (inputs, targets) = rows(&splits);
            assert_eq!((inputs.len(), targets.len()), (50, 50));
            for (x, target) in inputs.iter().zip(&targets) {
                let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
                let linear = c.linear[0] * x[0] + c.linear[1] * x[1] + c.linear[2] * x[2];
                let products = p(0) * x[0] * x[1] + p(1) * x[1] * x[2] + p(2) * x[2] * x[0];
                let expected = c.bias + linear + products;
                assert!((f64::from(target[0]) - expected).abs() < 1e-5, "{target:?}");
            }
            assert_eq!(c.products.is_empty(), !nonlinear);
            let description = splits.train.describe();
            assert!(description[0].contains("·x3"), "{description:?}");
            assert_eq!(description[0].contains("·x3·x1"), nonlinear);
        }
    }

    #[test]
    fn noise_has_its_standard_deviation() {
        let drawn = |noise| {
            let config = RegressionConfig {
                train: 4000,
                noise,
                ..config()
            };
            rows(&load(&config, 1).expect("data"))
        };
        let ((same, without), (inputs, with)) = (drawn(0.0), drawn(0.5));
        assert_eq!(same, inputs);
        let pairs = without.iter().zip(&with);
        let squares: f32 = pairs.map(|(a, b)| (a[0] - b[0]) * (a[0] - b[0])).sum();
        let deviation = (squares / 4000.0).sqrt();
        assert!((deviation - 0.5).abs() < 0.03, "{deviation}");
    }

    #[test]
    fn numbers_out_of_range_are_reported() {
        let edited = |edit: fn(&mut RegressionConfig)| {
            let mut config = config();
            edit(&mut config);
            config
        };
        for (config, words) in [
            (edited(|c| c.train = 0), "`data.train` must be at least 1"),
            (edited(|c| c.features = 0), "`data.features` must be at"),
            (
                edited(|c| c.informative = 6),
                "`data.informative` must be from 1 to `data.features`, found 6",
            ),
            (edited(|c| c.noise = -0.5), "`data.noise` must be from 0"),
        ] {
            let error = load(&config, 1).err().expect(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

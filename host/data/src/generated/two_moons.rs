//! Two interleaved half circles: points of the plane in two classes that no line separates.
//!
//! Sample i of a split depends only on (seed, split, i). Points on a circle are computed from points in
//! a disc (Marsaglia, 1972), without a sine: every processor gives the same bits.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::range::range;
use crate::numbers::{NumberDataset, Samples, TargetValues};
use crate::preprocessing::GeneratedSamples;
use crate::{DataError, Dataset, Preprocessing, Splits, Targets, Transform};
use sconce_ops::random::{self, Stream};

/// Two interleaved half circles, drawn from the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TwoMoonsConfig {
    /// Number of training samples.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub train: usize,
    /// Number of validation samples; 0 for no validation.
    #[schemars(range(max = 10_000_000))]
    pub val: usize,
    /// Number of test samples; 0 for no test.
    #[schemars(range(max = 10_000_000))]
    pub test: usize,
    /// Standard deviation of the noise on both coordinates; the circles have radius 1.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub noise: f64,
}

impl Default for TwoMoonsConfig {
    fn default() -> Self {
        TwoMoonsConfig {
            train: 1000,
            val: 200,
            test: 200,
            noise: 0.1,
        }
    }
}

/// Draws the samples.
pub(crate) fn load(config: &TwoMoonsConfig, seed: u64) -> Result<Splits, DataError> {
    range("train", "at least 1", config.train as f64, config.train > 0)?;
    let noise = config.noise;
    range(
        "noise",
        "from 0 to 10",
        noise,
        (0.0..=10.0).contains(&noise),
    )?;
    let targets = Targets::Class(vec!["upper".to_owned(), "lower".to_owned()]);
    let dataset = |split: &str, count: usize| -> Arc<dyn Dataset> {
        let samples = draw(config, seed, split, count);
        Arc::new(NumberDataset::all(samples, targets.clone()))
    };
    Ok(Splits {
        train: dataset("train", config.train),
        val: (config.val > 0).then(|| dataset("val", config.val)),
        test: (config.test > 0).then(|| dataset("test", config.test)),
        preprocessing: Arc::new(Preprocessing::of(Transform::Generated(GeneratedSamples {
            shape: vec![2],
            targets: targets.clone(),
        }))),
        files: Vec::new(),
    })
}

/// Draws the samples of a split, alternating between the classes.
fn draw(config: &TwoMoonsConfig, seed: u64, split: &str, count: usize) -> Samples {
    let purpose = format!("two-moons/{split}");
    let mut inputs = Vec::with_capacity(count * 2);
    let mut classes = Vec::with_capacity(count);
    for index in 0..count {
        let mut stream = random::stream(seed, &purpose, 0, index as u64);
        let class = (index % 2) as u32;
        let (x, y) = half_circle(&mut stream);
        let (x, y) = if class == 0 {
            (x, y)
        } else {
            (1.0 - x, 0.5 - y)
        };
        inputs.push((x + config.noise * stream.normal()) as f32);
        inputs.push((y + config.noise * stream.normal()) as f32);
        classes.push(class);
    }
    Samples {
        inputs: inputs.into(),
        shape: vec![2],
        values: TargetValues::Classes(classes),
        count,
    }
}

/// Draws a point of the upper unit half circle, uniformly.
fn half_circle(stream: &mut Stream) -> (f64, f64) {
    loop {
        let (x, y) = (stream.uniform(-1.0, 1.0), stream.uniform(-1.0, 1.0));
        let square = x * x + y * y;
        if square > 1e-6 && square <= 1.0 {
            let radius = square.sqrt();
            return (x / radius, (y / radius).abs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(splits: &Splits) -> (Vec<Vec<f32>>, Vec<u32>) {
        let all: Vec<u32> = (0..splits.train.len() as u32).collect();
        let batch = splits.train.gather(&all, 0).expect("all samples");
        let points = batch.inputs.to_vec2().expect("points");
        (points, batch.targets.to_vec1().expect("classes"))
    }

    #[test]
    fn without_noise_the_points_lie_on_two_half_circles() {
        let config = TwoMoonsConfig {
            train: 400,
            val: 0,
            test: 7,
            noise: 0.0,
        };
        let splits = load(&config, 1).expect("data");
        assert!(splits.val.is_none());
        assert_eq!(splits.test.as_ref().map(|test| test.len()), Some(7));
        let (points, classes) = points(&splits);
        assert_eq!(classes.iter().sum::<u32>(), 200);
        let mut left = 0;
        for (point, class) in points.iter().zip(&classes) {
            let (x, y) = match class {
                0 => (point[0], point[1]),
                _ => (1.0 - point[0], 0.5 - point[1]),
            };
            assert!((x * x + y * y - 1.0).abs() < 1e-5 && y > -1e-6, "{point:?}");
            left += usize::from(x < 0.0);
        }
        assert!((150..250).contains(&left), "both halves come: {left}");
    }

    #[test]
    fn a_sample_depends_on_seed_split_and_index_alone() {
        let config = |train, noise| TwoMoonsConfig {
            train,
            noise,
            ..TwoMoonsConfig::default()
        };
        let drawn = |train, seed| points(&load(&config(train, 0.1), seed).expect("data")).0;
        assert_eq!(drawn(3, 1)[..], drawn(5, 1)[..3]);
        assert_ne!(drawn(3, 1), drawn(3, 2));
        for (config, words) in [
            (config(0, 0.1), "`data.train` must be at least 1"),
            (
                config(1, -1.0),
                "`data.noise` must be from 0 to 10, found -1",
            ),
            (config(1, f64::NAN), "`data.noise`"),
        ] {
            let error = load(&config, 1).err().expect(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

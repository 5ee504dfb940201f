//! The `grad-noise` hook: Gaussian noise on the gradients, decaying over the updates (Neelakantan et al.
//! 2015, arXiv:1511.06807).
//!
//! `{"hook": "grad-noise", "config": {"eta": 0.01}}`
//!
//! In update t (from 0) its variance is `eta / (1 + t)^gamma`. The generator is keyed by the seed, the
//! hook's name and the update, so that a resumed run draws the same noise.
//!
//! The noise is drawn here, one number after the other, and published; the host adds it where the gradients are. So a GPU
//! is given it once, and its gradients are neither fetched nor written back.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Collection, Combination};
use sconce_plugin_api::prelude::*;

use crate::names;

/// How much noise, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The variance of the noise in the first update; not negative. Default 0.01.
    #[schemars(range(min = 0.0))]
    eta: f64,
    /// Decay exponent: the variance is divided by `(1 + t)^gamma`; not negative. Default 0.55.
    #[schemars(range(min = 0.0))]
    gamma: f64,
    /// Parameters whose gradients get noise: name patterns. Default: all.
    #[schemars(length(min = 1))]
    parameters: Vec<String>,
    /// First update with noise, counted from 0; t is counted from there. Default 0.
    begin: u64,
    /// First update without noise again. Default: none, noise is added to the end.
    end: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            eta: 0.01,
            gamma: 0.55,
            parameters: vec!["*".to_owned()],
            begin: 0,
            end: None,
        }
    }
}

impl Config {
    /// Returns the standard deviation in an update; `None` without noise.
    fn deviation(&self, update: u64) -> Option<f64> {
        let since = update.checked_sub(self.begin)?;
        if self.end.is_some_and(|end| update >= end) {
            return None;
        }
        Some((self.eta / (1.0 + since as f64).powf(self.gamma)).sqrt())
    }
}

/// Standard normal generator by Marsaglia's polar method (Marsaglia and Bray, 1964).
struct Normal {
    words: ChaCha8Rng,
    spare: Option<f64>,
}

impl Normal {
    /// Creates the generator of one update.
    fn of(seed: u64, name: &str, update: u64) -> Normal {
        // The name is hashed in (FNV-1a), so that two entries of this hook draw different noise.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let key = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix);
        let mut words = ChaCha8Rng::seed_from_u64(key);
        words.set_stream(update);
        Normal { words, spare: None }
    }

    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.symmetric(), self.symmetric());
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Draws uniformly from [-1, 1).
    fn symmetric(&mut self) -> f64 {
        const STEP: f64 = 2.0 / (1_u64 << 53) as f64;
        (self.words.next_u64() >> 11) as f64 * STEP - 1.0
    }
}

/// A parameter whose gradient gets noise.
struct Noisy {
    name: String,
    /// Name of the published noise: `HOOK/noise/PARAMETER`.
    published: String,
    shape: Vec<usize>,
    is_double: bool,
}

impl Noisy {
    fn of(task: &TaskView<'_>, name: String, hook: &str) -> Result<Noisy> {
        let parameter = task.parameter(&name)?;
        let shape = parameter.shape().iter();
        Ok(Noisy {
            published: format!("{hook}/noise/{name}"),
            shape: shape.map(|&size| size as usize).collect(),
            is_double: parameter.dtype() == Some(DType::F64),
            name,
        })
    }

    /// Publishes the noise of an update.
    fn publish(&self, task: &mut TaskView<'_>, normal: &mut Normal, deviation: f64) -> Result<()> {
        let numbers = (0..self.shape.iter().product()).map(|_| deviation * normal.next());
        if self.is_double {
            let numbers: Vec<f64> = numbers.collect();
            return task.publish_tensor(&self.published, &self.shape, &numbers, Keep::Batch);
        }
        let numbers: Vec<f32> = numbers.map(|number| number as f32).collect();
        task.publish_tensor(&self.published, &self.shape, &numbers, Keep::Batch)
    }
}

/// See the [module](self).
pub(crate) struct GradNoise {
    config: Config,
    seed: u64,
    name: String,
    parameters: Vec<Noisy>,
}

#[hook(
    name = "grad-noise",
    about = "Adds Gaussian noise to gradients, less with every update.",
    requires = ["sconce.tensors/1", "sconce.values/1", "sconce.vectors/1"],
    ranks = "all",
    reads = parameters
)]
impl Hook for GradNoise {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        names::check(setup, "parameters", &config.parameters)?;
        if let Some(plan) = setup.plan()?
            && (config.begin >= plan.updates() || config.end.is_some_and(|end| end <= config.begin))
        {
            setup.warn(format_args!(
                "no update gets noise: `begin` is {}, the run has {} updates{}",
                config.begin,
                plan.updates(),
                config
                    .end
                    .map_or_else(String::new, |end| format!(", `end` is {end}"))
            ));
        }
        Ok(GradNoise {
            config,
            seed: setup.seed(),
            name: setup.name().to_owned(),
            parameters: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let chosen = names::chosen_parameters(task, "parameters", &self.config.parameters)?;
        let noisy = chosen.into_iter();
        let noisy = noisy.map(|name| Noisy::of(task, name, &self.name));
        self.parameters = noisy.collect::<Result<_>>()?;
        Ok(())
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let Some(deviation) = self.config.deviation(task.update()) else {
            return Ok(());
        };
        let mut normal = Normal::of(self.seed, &self.name, task.update());
        let (mut gradients, mut noise) = (Vec::new(), Vec::new());
        for noisy in &self.parameters {
            // Frozen parameters have none.
            if task.tensors(Collection::Gradients).has(&noisy.name)? {
                noisy.publish(task, &mut normal, deviation)?;
                gradients.push(noisy.name.as_str());
                noise.push(noisy.published.as_str());
            }
        }
        Vectors::named(Collection::Gradients, gradients).combine(
            task,
            &mut Vectors::named(Collection::Published, noise),
            Combination::Add(1.0),
        )
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_normal_and_keyed() {
        let draw = |seed, name, update| -> Vec<f64> {
            let mut normal = Normal::of(seed, name, update);
            (0..20_000).map(|_| normal.next()).collect()
        };
        let first = draw(1, "noise", 0);
        assert_eq!(first, draw(1, "noise", 0));
        for other in [
            draw(2, "noise", 0),
            draw(1, "noise-2", 0),
            draw(1, "noise", 1),
        ] {
            assert_ne!(first, other);
        }
        let moment = |power: i32| first.iter().map(|x| x.powi(power)).sum::<f64>() / 20_000.0;
        for (power, expected, tolerance) in
            [(1, 0.0, 0.03), (2, 1.0, 0.05), (3, 0.0, 0.1), (4, 3.0, 0.3)]
        {
            assert!(
                (moment(power) - expected).abs() < tolerance,
                "{power}: {}",
                moment(power)
            );
        }
    }

    #[test]
    fn the_variance_goes_as_the_paper_says() {
        let config = Config {
            eta: 0.3,
            begin: 2,
            end: Some(10),
            ..Config::default()
        };
        assert_eq!(config.deviation(1), None);
        assert_eq!(config.deviation(10), None);
        let deviation = |update| config.deviation(update).unwrap_or(f64::NAN);
        assert!((deviation(2).powi(2) - 0.3).abs() < 1e-12);
        assert!((deviation(6).powi(2) - 0.3 / 5.0_f64.powf(0.55)).abs() < 1e-12);
    }

    #[test]
    fn chosen_gradients_get_the_noise_of_their_update() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .seed(7)
            .gradient("fc1.bias", |_iteration| vec![0.5; 4]);
        let config = json!({
            "eta": 0.25, "gamma": 0.0, "parameters": ["fc1.bias"], "begin": 1, "end": 3,
        });
        let seen = run.drive::<GradNoise>(config.clone())?;
        let changed = seen.changes().iter();
        let changed: Vec<_> = changed
            .map(|change| (change.at.update, change.name.as_str(), change.after.clone()))
            .collect();
        let expected = [1, 2].map(|update| {
            let mut normal = Normal::of(7, "grad-noise", update);
            let noisy = [0.5_f32; 4].map(|number| number + (0.5 * normal.next()) as f32);
            (update, "fc1.bias", noisy.to_vec())
        });
        assert_eq!(changed, expected);
        run.check_resume::<GradNoise>(config)
    }

    /// The hook where a parameter is frozen.
    struct WithFrozen(GradNoise);

    #[hook(
        name = "with-frozen",
        about = "Freezes a parameter, and adds noise.",
        requires = ["sconce.tensors/1", "sconce.values/1", "sconce.vectors/1"],
        ranks = "all",
        reads = [parameters, gradients]
    )]
    impl Hook for WithFrozen {
        type Config = Config;

        fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
            GradNoise::new(config, setup).map(WithFrozen)
        }

        fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
            task.freeze("frozen")?;
            self.0.before_run(task)
        }

        fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
            self.0.before_update(task)
        }
    }

    #[test]
    fn gradients_take_their_noise_from_one_stream_and_missing_ones_take_none()
    -> std::result::Result<(), Failed> {
        let seen = ScriptedRun::new()
            .epochs(1)
            .iterations(1)
            .seed(3)
            .empty_model()
            .parameter("a", &[2, 2], &[0.0; 4])
            .parameter("frozen", &[7], &[0.0; 7])
            .parameter("b", &[3], &[0.0; 3])
            .gradient("a", |_iteration| vec![0.25; 4])
            .gradient("b", |_iteration| vec![-3.0; 3])
            .drive::<WithFrozen>(json!({"eta": 0.09, "gamma": 0.0}))?;
        let mut normal = Normal::of(3, "with-frozen", 0);
        let deviation = 0.09_f64.sqrt();
        let mut noisy = |number: f32, count: usize| -> Vec<f32> {
            let noise = (0..count).map(|_| (deviation * normal.next()) as f32);
            noise.map(|noise| number + noise).collect()
        };
        let expected = [("a", noisy(0.25, 4)), ("b", noisy(-3.0, 3))];
        let found = seen.changes().iter();
        let found: Vec<_> = found
            .map(|change| (change.name.as_str(), change.after.clone()))
            .collect();
        assert_eq!(found, expected);
        Ok(())
    }
}

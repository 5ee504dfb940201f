//! The `loss-scale` hook: multiplies the loss before the backward pass and divides the gradients by the
//! same factor before the update, so that small gradients do not underflow in low precision (Micikevicius
//! et al. 2018, arXiv:1710.03740).
//!
//! `{"hook": "loss-scale", "config": {"mode": "dynamic"}}`
//!
//! An update whose gradients are not finite is skipped. The dynamic scale then shrinks, and grows after
//! `growth_interval` good updates in a row, as in `torch.amp.GradScaler`.

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Change, Collection, Reduction};
use sconce_plugin_api::prelude::*;

/// How the loss is scaled.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Whether the scale changes. Default `dynamic`.
    mode: Mode,
    /// Initial scale, above 0; a power of 2 causes no rounding. Default 65536.
    #[schemars(extend("exclusiveMinimum" = 0))]
    scale: f64,
    /// Factor by which the scale grows, above 1. Default 2.
    #[schemars(extend("exclusiveMinimum" = 1))]
    growth_factor: f64,
    /// Factor by which the scale shrinks when gradients are not finite, between 0 and 1. Default 0.5.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    backoff_factor: f64,
    /// Number of good updates in a row after which the scale grows, at least 1. Default 2000.
    #[schemars(range(min = 1))]
    growth_interval: u64,
    /// Lower limit of the scale, above 0. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    min_scale: f64,
    /// Upper limit of the scale, above 0. Default 16777216.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_scale: f64,
    /// Number of skipped updates in a row after which the run fails, having diverged. Default 100.
    #[schemars(range(min = 1))]
    give_up_after: u64,
    /// Metric name under which the scale is published; empty: not published. Default `loss_scale`.
    publish: String,
}

/// Whether the scale changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// The scale is constant.
    Static,
    /// The scale shrinks when gradients are not finite and grows after many good updates.
    Dynamic,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mode: Mode::Dynamic,
            scale: 65_536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            min_scale: 1.0,
            max_scale: 16_777_216.0,
            give_up_after: 100,
            publish: "loss_scale".to_owned(),
        }
    }
}

/// The current scale and the counts of good and skipped updates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    scale: f64,
    /// Good updates in a row.
    #[serde(deserialize_with = "state::count")]
    good: u64,
    /// Updates skipped in a row; `skipped` counts them over the whole run.
    #[serde(deserialize_with = "state::count")]
    bad: u64,
    #[serde(deserialize_with = "state::count")]
    skipped: u64,
}

impl State {
    /// Counts an update and adapts the scale; `is_good` says whether the gradients are finite.
    fn count(&mut self, config: &Config, is_good: bool) {
        let is_dynamic = config.mode == Mode::Dynamic;
        if !is_good {
            (self.good, self.bad, self.skipped) = (0, self.bad + 1, self.skipped + 1);
            if is_dynamic {
                self.scale = (self.scale * config.backoff_factor).max(config.min_scale);
            }
            return;
        }
        (self.good, self.bad) = (self.good + 1, 0);
        if is_dynamic && self.good >= config.growth_interval {
            self.good = 0;
            self.scale = (self.scale * config.growth_factor).min(config.max_scale);
        }
    }
}

/// See the [module](self).
pub(crate) struct LossScale {
    config: Config,
    state: State,
    gradients: Vectors,
}

#[hook(
    name = "loss-scale",
    about = "Scales the loss for the backward pass and leaves out updates whose gradients are not finite.",
    priority = HIGHEST,
    publishes = ["loss_scale"],
    requires = ["sconce.vectors/1", "sconce.requests/1"],
    ranks = "all",
    state = state,
    reads = gradients
)]
impl Hook for LossScale {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.min_scale > config.max_scale {
            bail!("`min_scale` must not be above `max_scale`");
        }
        if config.mode == Mode::Static {
            let unused = [
                "growth_factor",
                "backoff_factor",
                "growth_interval",
                "min_scale",
                "max_scale",
            ];
            setup.warn_of_unused(&unused, "with `\"mode\": \"static\"`");
        }
        let checks = setup.manifest()?.pointer("/train/check_finite").cloned();
        if checks.is_some_and(|checks| checks == true) {
            bail!(
                "`train.check_finite` ends the run at the first gradient that is not finite; this \
                 hook leaves such updates out: take one of the two out of the manifest"
            );
        }
        let state = State {
            scale: config.scale,
            ..State::default()
        };
        Ok(LossScale {
            config,
            state,
            gradients: Vectors::all(Collection::Gradients),
        })
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        match task.in_training() {
            Some(mut task) => task.scale_loss(self.state.scale),
            None => Ok(()),
        }
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let counts = self.gradients.reduce(task, Reduction::NotFinite)?;
        let is_good = !counts.iter().any(|&count| count > 0.0);
        // Later hooks find unscaled gradients; those of a skipped update are zeros.
        let change = if is_good {
            Change::Scale(1.0 / self.state.scale)
        } else {
            Change::Fill(0.0)
        };
        self.gradients.change(task, change)?;
        let before = self.state.scale;
        self.state.count(&self.config, is_good);
        if !self.config.publish.is_empty() {
            task.publish_metric(&self.config.publish, self.state.scale)?;
        }
        if is_good {
            return Ok(());
        }
        if self.state.bad >= self.config.give_up_after {
            bail!(
                "the gradients of {} updates in a row are not finite, the last ones at a loss scale \
                 of {before}: the training has diverged",
                self.state.bad
            );
        }
        task.skip_update()
    }

    fn state_restored(&mut self) -> Result<()> {
        let scale = self.state.scale;
        if !scale.is_normal() || scale < 0.0 {
            bail!("the state's `scale` must be above 0, found {scale}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Compares with `torch.amp.GradScaler`'s scales for updates that are good (1) or bad (0). See
    /// `tests/reference/loss_scales.py`.
    #[test]
    fn the_scale_goes_as_pytorch_s_does() {
        let text = include_str!("../../../tests/reference/loss_scales.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 1);
        for case in cases {
            let config: Config = serde_json::from_value(case["config"].clone()).expect("a config");
            let mut state = State {
                scale: config.scale,
                ..State::default()
            };
            let good: Vec<u8> = serde_json::from_value(case["good"].clone()).expect("numbers");
            let scales: Vec<f64> = serde_json::from_value(case["scales"].clone()).expect("numbers");
            assert!(!good.is_empty() && good.len() == scales.len(), "{case}");
            for (good, scale) in good.iter().zip(scales) {
                state.count(&config, *good == 1);
                assert!((state.scale - scale).abs() < 1e-9, "{state:?} {scale}");
            }
        }
    }

    #[test]
    fn the_scale_stays_within_its_bounds_and_a_static_one_as_it_is() {
        let config = Config {
            growth_interval: 1,
            scale: 4.0,
            min_scale: 2.0,
            max_scale: 8.0,
            ..Config::default()
        };
        let mut state = State {
            scale: 4.0,
            ..State::default()
        };
        for (good, scale) in [
            (false, 2.0),
            (false, 2.0),
            (true, 4.0),
            (true, 8.0),
            (true, 8.0),
        ] {
            state.count(&config, good);
            assert!((state.scale - scale).abs() < 1e-12);
        }
        let config = Config {
            mode: Mode::Static,
            growth_interval: 1,
            ..Config::default()
        };
        state.count(&config, false);
        state.count(&config, true);
        assert!((state.scale - 8.0).abs() < 1e-12);
        assert_eq!(state.skipped, 3);
    }

    /// One epoch of four updates; the gradients of these are infinite, all others 1.
    fn run(bad: &'static [u64]) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(1)
            .learning_rate(1.0)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |iteration| {
                vec![if bad.contains(&iteration) {
                    f32::INFINITY
                } else {
                    1.0
                }]
            })
    }

    #[test]
    fn updates_have_their_own_gradients_and_bad_ones_are_left_out()
    -> std::result::Result<(), Failed> {
        let config = json!({"scale": 4.0, "growth_interval": 2});
        let seen = run(&[1]).drive::<LossScale>(config.clone())?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request, asked.number))
            .collect();
        assert_eq!(
            asked,
            [
                (0, Request::ScaleLoss, 4.0),
                (1, Request::ScaleLoss, 4.0),
                (1, Request::SkipUpdate, 0.0),
                (2, Request::ScaleLoss, 2.0),
                (3, Request::ScaleLoss, 2.0),
            ]
        );
        assert_eq!(
            seen.metric(Phase::Train, "loss_scale"),
            [4.0, 2.0, 2.0, 4.0]
        );
        assert_eq!(seen.parameter("w"), [-3.0]);
        run(&[1]).check_resume::<LossScale>(config)
    }

    #[test]
    fn the_run_fails_after_too_many_bad_updates_in_a_row() -> std::result::Result<(), Failed> {
        let config = json!({"mode": "static", "scale": 8.0, "give_up_after": 2});
        run(&[0, 2]).drive::<LossScale>(config.clone())?;
        let failed = run(&[1, 2]).drive::<LossScale>(config).unwrap_err();
        assert_eq!(failed.at.map(|at| at.iteration), Some(2));
        assert_eq!(
            failed.message,
            "the gradients of 2 updates in a row are not finite, the last ones at a loss scale of 8: \
         the training has diverged"
        );
        Ok(())
    }
}

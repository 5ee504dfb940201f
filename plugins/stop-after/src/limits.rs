//! The limits given under `config`, and which of them a run has reached.

use std::time::Duration;

use sconce_plugin_api::Plan;
use sconce_plugin_api::prelude::*;

/// When the `stop-after` hook stops the run: at the first limit reached. At least one is required.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Stop after this many training epochs, each with its validation; at least 1.
    #[schemars(range(min = 1))]
    pub(crate) epochs: Option<u64>,
    /// Stop after this many training iterations (batches; micro-batches with gradient
    /// accumulation); at least 1.
    #[schemars(range(min = 1))]
    pub(crate) iterations: Option<u64>,
    /// Stop after this many optimizer steps; at least 1.
    #[schemars(range(min = 1))]
    pub(crate) updates: Option<u64>,
    /// Stop after the iteration that reaches this many training samples; at least 1.
    #[schemars(range(min = 1))]
    pub(crate) samples: Option<u64>,
    /// Stop after the iteration in which this many minutes since the beginning of the run have
    /// passed; above 0, fractions allowed.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) minutes: Option<f64>,
}

/// Progress of a run.
pub(crate) struct Progress {
    pub(crate) iterations: u64,
    pub(crate) updates: u64,
    pub(crate) samples: u64,
    pub(crate) elapsed: Duration,
}

impl Config {
    /// Rejects a configuration without any limit.
    pub(crate) fn check(&self) -> Result<()> {
        let counts = [self.epochs, self.iterations, self.updates, self.samples];
        if self.minutes.is_none() && counts == [None; 4] {
            bail!(
                "there is no limit: give at least one of `epochs`, `iterations`, `updates`, \
                 `samples`, `minutes`"
            );
        }
        Ok(())
    }

    /// Warns about limits beyond the end of the run.
    pub(crate) fn warn_of_late(&self, plan: &Plan, setup: &Setup<'_>) {
        for (name, limit, total) in [
            ("epochs", self.epochs, plan.epochs),
            ("iterations", self.iterations, plan.iterations()),
            ("updates", self.updates, plan.updates()),
        ] {
            if let Some(limit) = limit.filter(|limit| *limit > total) {
                setup.warn(format_args!(
                    "`{name}` is {limit}, the run ends after {total}"
                ));
            }
        }
    }

    /// Reason to stop now, if a limit other than `epochs` is reached.
    pub(crate) fn reached(&self, progress: &Progress) -> Option<String> {
        let is_over = |minutes: &f64| progress.elapsed.as_secs_f64() >= minutes * 60.0;
        reason(self.iterations, progress.iterations, "iteration")
            .or_else(|| reason(self.updates, progress.updates, "update"))
            .or_else(|| reason(self.samples, progress.samples, "sample"))
            .or_else(|| {
                self.minutes
                    .filter(is_over)
                    .map(|minutes| say(&minutes, "minute"))
            })
    }

    /// Reason to stop, if the limit of training epochs is reached.
    pub(crate) fn epochs_reached(&self, epochs: u64) -> Option<String> {
        reason(self.epochs, epochs, "epoch")
    }
}

fn reason(limit: Option<u64>, done: u64, what: &str) -> Option<String> {
    let limit = limit.filter(|limit| done >= *limit)?;
    Some(say(&limit, what))
}

/// Formats as `stop-after: 500 iterations`.
fn say(limit: &impl ToString, what: &str) -> String {
    let limit = limit.to_string();
    let plural = if limit == "1" { "" } else { "s" };
    format!("stop-after: {limit} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(iterations: u64, updates: u64, samples: u64, seconds: u64) -> Progress {
        Progress {
            iterations,
            updates,
            samples,
            elapsed: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn the_first_limit_that_is_reached_gives_the_reason() {
        let limits = Config {
            epochs: Some(1),
            iterations: Some(500),
            updates: Some(100),
            samples: Some(64),
            minutes: Some(1.5),
        };
        let cases = [
            (progress(499, 99, 63, 89), None),
            (
                progress(500, 99, 63, 89),
                Some("stop-after: 500 iterations"),
            ),
            (progress(499, 100, 63, 89), Some("stop-after: 100 updates")),
            (progress(499, 99, 70, 89), Some("stop-after: 64 samples")),
            (progress(499, 99, 63, 90), Some("stop-after: 1.5 minutes")),
            (
                progress(900, 900, 900, 900),
                Some("stop-after: 500 iterations"),
            ),
        ];
        for (progress, expected) in cases {
            assert_eq!(limits.reached(&progress).as_deref(), expected);
        }
        assert_eq!(limits.epochs_reached(0), None);
        let reason = limits.epochs_reached(1);
        assert_eq!(reason.as_deref(), Some("stop-after: 1 epoch"));
    }

    #[test]
    fn absent_limits_are_never_reached() {
        let limits = Config::default();
        assert_eq!(limits.reached(&progress(9, 9, 9, 9_999)), None);
        assert_eq!(limits.epochs_reached(u64::MAX), None);
    }

    #[test]
    fn configurations_that_say_nothing_are_refused() {
        let minutes = |minutes| Config {
            minutes: Some(minutes),
            ..Config::default()
        };
        let updates = |updates| Config {
            updates: Some(updates),
            ..Config::default()
        };
        let message = |config: Config| config.check().map_err(|error| error.message().to_owned());
        assert_eq!(message(updates(1)), Ok(()));
        assert_eq!(message(minutes(0.1)), Ok(()));
        let refusal = message(Config::default());
        assert!(refusal.is_err_and(|text| text.contains("at least one of `epochs`")));
    }
}

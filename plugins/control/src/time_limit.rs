//! The `time-limit` hook: stops the run in time, with a checkpoint to resume from.
//!
//! `{"hook": "time-limit", "config": {"minutes": 55, "save": "in-time", "of": "process"}}`

use sconce_plugin_api::moment::BetweenIterations;
use sconce_plugin_api::prelude::*;

/// How long the run may last.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Hours; the sum of `hours`, `minutes` and `seconds` must be above 0. Default 0.
    #[schemars(range(min = 0.0))]
    hours: f64,
    /// Minutes, added to the hours. Default 0.
    #[schemars(range(min = 0.0))]
    minutes: f64,
    /// Seconds, added to both. Default 0.
    #[schemars(range(min = 0.0))]
    seconds: f64,
    /// Which time is limited. Default `run`.
    of: Of,
    /// When the clock is checked. Default `iteration`.
    at: Check,
    /// Stop early enough that the time up to the next check still fits, estimated by the longest
    /// epoch (or iteration) so far. Default false.
    leave_room: bool,
    /// Save a checkpoint under this tag when the time is over. Default: none.
    save: Option<String>,
}

/// Which time is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Of {
    /// The time of the run, including the parts before a resume.
    Run,
    /// The time of this process, which is what a batch system limits.
    Process,
}

/// When the clock is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Check {
    /// After each iteration: the run stops in mid-epoch.
    Iteration,
    /// After each epoch and its validation.
    Epoch,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            hours: 0.0,
            minutes: 0.0,
            seconds: 0.0,
            of: Of::Run,
            at: Check::Iteration,
            leave_room: false,
            save: None,
        }
    }
}

/// See the [module](self).
pub(crate) struct TimeLimit {
    config: Config,
    /// In seconds.
    limit: f64,
    clock: Clock,
    is_over: bool,
}

/// Times at which the clock was checked, in seconds.
#[derive(Default)]
struct Clock {
    /// Time when this process began.
    began: f64,
    last: Option<f64>,
    longest: f64,
}

impl Clock {
    /// Checks the clock; returns the time to compare with the limit.
    fn look(&mut self, now: f64, leave_room: bool) -> f64 {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now - last);
        }
        let room = if leave_room { self.longest } else { 0.0 };
        now - self.began + room
    }
}

impl TimeLimit {
    fn look(&mut self, task: &mut At<'_, impl BetweenIterations>) -> Result<()> {
        let now = task.elapsed().as_secs_f64();
        let passed = self.clock.look(now, self.config.leave_room);
        if passed < self.limit || std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        if let Some(tag) = &self.config.save {
            task.checkpoint(tag).save()?;
        }
        task.stop(&format!("the time of {} s is over", self.limit))
    }
}

#[hook(
    name = "time-limit",
    about = "Stops the run when its time is over, with a checkpoint if one wants it.",
    priority = LOWEST,
    asks = [stop, save_checkpoint]
)]
impl Hook for TimeLimit {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.save.is_none() {
            setup.asks(&["stop"])?;
        }
        let limit = config.hours * 3600.0 + config.minutes * 60.0 + config.seconds;
        if !limit.is_finite() || limit <= 0.0 {
            bail!("`hours`, `minutes` and `seconds` together must be above 0, found {limit} s");
        }
        Ok(TimeLimit {
            config,
            limit,
            clock: Clock::default(),
            is_over: false,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        if self.config.of == Of::Process {
            self.clock.began = task.elapsed().as_secs_f64();
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if self.config.at == Check::Iteration && task.phase() == Phase::Train {
            return self.look(task);
        }
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        if self.config.at == Check::Epoch {
            return self.look(task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn room_is_left_for_the_longest_step_so_far() {
        let mut clock = Clock {
            began: 10.0,
            ..Clock::default()
        };
        let seconds = |clock: &mut Clock, now| clock.look(now, true);
        for (now, expected) in [(11.0, 1.0), (13.0, 5.0), (14.0, 6.0)] {
            assert!((seconds(&mut clock, now) - expected).abs() < 1e-9, "{now}");
        }
        assert!((clock.look(20.0, false) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_run_is_saved_and_stopped_when_the_time_is_over() -> std::result::Result<(), Failed> {
        // An iteration takes 10 s, an epoch 40 s.
        let run = ScriptedRun::new().seconds_per_iteration(10.0);
        for (config, iteration) in [
            (json!({"minutes": 1}), 6),
            (json!({"minutes": 1, "seconds": 1}), 7),
            (json!({"minutes": 1, "leave_room": true}), 5),
            (json!({"minutes": 1, "at": "epoch"}), 8),
            (json!({"seconds": 100, "at": "epoch"}), 12),
            (
                json!({"seconds": 100, "at": "epoch", "leave_room": true}),
                8,
            ),
        ] {
            let mut config = config;
            config["save"] = json!("in-time");
            let seen = run.drive::<TimeLimit>(config.clone())?;
            let asked = seen.asked().iter();
            let asked: Vec<_> = asked
                .map(|asked| (asked.request, asked.at.iteration))
                .collect();
            let expected =
                [Request::SaveCheckpoint, Request::Stop].map(|request| (request, iteration));
            assert_eq!(asked, expected, "{config}");
            assert_eq!(seen.checkpoints(), ["in-time"]);
        }
        let seen = run.drive::<TimeLimit>(json!({"hours": 1}))?;
        assert_eq!(seen.asked(), []);
        Ok(())
    }

    #[test]
    fn a_resumed_run_counts_its_whole_time_or_that_of_the_process()
    -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .seconds_per_iteration(10.0)
            .interrupt_after(3);
        for (of, iteration) in [("run", 6), ("process", 9)] {
            let seen = run.drive::<TimeLimit>(json!({"seconds": 60, "of": of}))?;
            assert_eq!(
                seen.stopped_at().map(|at| at.iteration),
                Some(iteration),
                "{of}"
            );
            assert_eq!(seen.stop_reason(), Some("the time of 60 s is over"));
        }
        let failed = run.drive::<TimeLimit>(json!({})).unwrap_err();
        assert_eq!(
            failed.message,
            "`hours`, `minutes` and `seconds` together must be above 0, found 0 s"
        );
        Ok(())
    }
}

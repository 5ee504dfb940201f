//! The `stop-after` hook: stops a run after a given amount of training, at the first limit reached.
//!
//! `{"hook": "stop-after", "config": {"iterations": 500, "minutes": 10}}`
//!
//! Limits count from the beginning of the run, including the parts before a resume. `epochs` stops
//! the run when the epoch and its validation are over; the other limits after the iteration that
//! reaches them, also in mid-epoch. If the minutes run out during a validation, the run stops after
//! it.

#![forbid(unsafe_code)]

mod limits;

use sconce_plugin_api::prelude::*;

use limits::{Config, Progress};

struct StopAfter {
    limits: Config,
}

#[hook(
    name = "stop-after",
    about = "Stops the run after a number of epochs, iterations, updates, samples or minutes.",
    priority = LOWEST
)]
impl Hook for StopAfter {
    type Config = Config;

    fn new(limits: Config, setup: &Setup<'_>) -> Result<Self> {
        limits.check()?;
        if let Some(plan) = setup.plan()? {
            limits.warn_of_late(&plan, setup);
        }
        Ok(StopAfter { limits })
    }

    /// A resumed run may have reached its limit already.
    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let reason = self.limits.epochs_reached(task.epoch());
        match reason.or_else(|| self.limits.reached(&progress(task))) {
            Some(reason) => task.stop(&reason),
            None => Ok(()),
        }
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        // The test comes after training: there is nothing left to stop.
        if !matches!(task.phase(), Phase::Train | Phase::Val) {
            return Ok(());
        }
        match self.limits.reached(&progress(task)) {
            Some(reason) => task.stop(&reason),
            None => Ok(()),
        }
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        match self.limits.epochs_reached(task.epoch()) {
            Some(reason) => task.stop_after_epoch(&reason),
            None => Ok(()),
        }
    }
}

fn progress(task: &TaskView<'_>) -> Progress {
    Progress {
        iterations: task.iteration(),
        updates: task.update(),
        samples: task.samples(),
        elapsed: task.elapsed(),
    }
}

export_plugin!(StopAfter);

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_run_stops_at_the_first_limit_reached() -> std::result::Result<(), Failed> {
        // Updates of two batches, samples by twos, 20 s an iteration.
        let run = ScriptedRun::new().accumulate(2).seconds_per_iteration(20.0);
        for (config, iteration, request, reason) in [
            (
                json!({"iterations": 5}),
                5,
                Request::Stop,
                "stop-after: 5 iterations",
            ),
            (
                json!({"updates": 3}),
                6,
                Request::Stop,
                "stop-after: 3 updates",
            ),
            (
                json!({"samples": 7}),
                4,
                Request::Stop,
                "stop-after: 7 samples",
            ),
            (
                json!({"minutes": 1}),
                3,
                Request::Stop,
                "stop-after: 1 minute",
            ),
            (
                json!({"epochs": 2}),
                8,
                Request::StopAfterEpoch,
                "stop-after: 2 epochs",
            ),
            (
                json!({"epochs": 2, "iterations": 7}),
                7,
                Request::Stop,
                "stop-after: 7 iterations",
            ),
        ] {
            let seen = run.drive::<StopAfter>(config)?;
            assert_eq!(seen.stop_reason(), Some(reason));
            assert_eq!(
                seen.stopped_at().map(|at| at.iteration),
                Some(iteration),
                "{reason}"
            );
            assert_eq!(seen.asked()[0].request, request);
        }
        Ok(())
    }

    #[test]
    fn a_limit_counts_the_parts_before_a_resume() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().interrupt_after(3);
        let seen = run.drive::<StopAfter>(json!({"iterations": 5}))?;
        let stopped = seen.stopped_at().map(|at| (at.point, at.iteration));
        assert_eq!(stopped, Some((Point::AfterIter, 5)));
        let failed = run.drive::<StopAfter>(json!({})).unwrap_err();
        assert!(failed.message.starts_with("there is no limit"), "{failed}");
        Ok(())
    }

    #[test]
    fn a_limit_behind_the_end_of_the_run_is_warned_of() -> std::result::Result<(), Failed> {
        let seen = ScriptedRun::new().drive::<StopAfter>(json!({"epochs": 4, "iterations": 12}))?;
        assert_eq!(seen.warnings(), ["`epochs` is 4, the run ends after 3"]);
        Ok(())
    }
}

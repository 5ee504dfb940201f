//! The `stop-after` hook: ends a run after so much training, whichever limit comes first.
//!
//! `{"hook": "stop-after", "config": {"iterations": 500, "minutes": 10}}`
//!
//! Limits count from the run's beginning, what came before a resume included. `epochs` ends the
//! run when the epoch and its validation are over; the others after the iteration that reaches
//! them, in mid-epoch too. Minutes that pass during a validation end the run after it.

#![forbid(unsafe_code)]

mod limits;

use sconce_plugin_api::prelude::*;

use limits::{Config, Progress};

struct StopAfter {
    limits: Config,
}

#[hook(
    name = "stop-after",
    about = "Stops the run after so many epochs, iterations, updates, samples or minutes.",
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

    /// A resumed run may be over before it begins.
    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let reason = self.limits.epochs_reached(task.epoch());
        match reason.or_else(|| self.limits.reached(&progress(task))) {
            Some(reason) => task.stop(&reason),
            None => Ok(()),
        }
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        // The test comes after the training: there is nothing left to stop.
        if !matches!(task.phase(), Phase::Train | Phase::Val) {
            return Ok(());
        }
        match self.limits.reached(&progress(task)) {
            Some(reason) => task.stop(&reason),
            None => Ok(()),
        }
    }

    fn after_cycle(&mut self, task: &mut TaskView<'_>) -> Result<()> {
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

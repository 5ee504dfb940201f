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

    /// A resumed run may have reached its limit already.
    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let reason = self.limits.epochs_reached(task.epoch());
        match reason.or_else(|| self.limits.reached(&progress(task))) {
            Some(reason) => task.stop(&reason),
            None => Ok(()),
        }
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        // The test comes after training: there is nothing left to stop.
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

//! Continues an epoch that began before a resume or a rollback.
//!
//! `before_epoch` is called again, since hooks prepare there what they need during the epoch. Changes that
//! they make to the run there, and requests, already took effect when the epoch began and are part of the
//! checkpoint: otherwise a schedule that sets a rate would show the rate of the next update too early, and a
//! hook that halves a rate would halve it twice. For the same reason hooks see the counters at which the
//! epoch began, with which some compare later iterations.

use candle_core::Tensor;
use sconce_plugin_api::{Keep, Point};

use super::evaluation::InterruptedPass;
use super::{RunError, Trainer};
use crate::bridge::ValueContent;
use crate::checkpoint::{EpochStart, PhaseState, Progress};
use crate::optim::Groups;
use crate::parameters::Parameter;

/// What hooks can change in a run at `before_epoch`.
struct EpochSnapshot {
    parameters: Vec<Tensor>,
    /// Learning rate multipliers of parameters; 0 if frozen.
    shares: Vec<f64>,
    groups: Groups,
    accumulation: Option<u64>,
    metrics: Vec<PhaseState>,
    values: Vec<(Keep, Box<str>, usize, ValueContent)>,
    progress: Progress,
}

impl Trainer<'_> {
    /// Calls `before_epoch` for an epoch that had already begun. It changes nothing but the hooks' internal
    /// state and the modules at which they are called. Afterwards hooks see the pass as it was.
    pub(super) fn reopen(
        &mut self,
        start: EpochStart,
        pass: InterruptedPass,
    ) -> Result<(), RunError> {
        let failed = |error| RunError::task("resuming an epoch", &self.view, error);
        let kept = self.changeable().map_err(failed)?;
        self.show_start(start);
        self.position.is_reopening = true;
        let called = self.call(Point::BeforeEpoch);
        self.position.is_reopening = false;
        // Also restored if a hook failed, since a checkpoint of the failed run is saved next.
        let restored = self.put_back(kept);
        pass.restore_flags(&mut self.view);
        called?;
        restored.map_err(|error| RunError::task("resuming an epoch", &self.view, error))
    }

    /// Shows the counters as they were when the epoch began.
    fn show_start(&mut self, start: EpochStart) {
        self.view.iteration = start.iteration;
        self.view.update = start.update;
        self.view.samples = start.samples;
        self.view.batch = 0;
        self.view.ordinal = 0;
    }

    fn changeable(&self) -> candle_core::Result<EpochSnapshot> {
        let parameters = self.task.parameters();
        let mut values = Vec::new();
        for keep in [Keep::Epoch, Keep::Run] {
            for (name, owner, value) in self.shared.values.of_kind(keep) {
                let value = match value {
                    ValueContent::Tensor(tensor) => ValueContent::Tensor(tensor.copy()?),
                    json @ ValueContent::Json(_) => json,
                };
                values.push((keep, name, owner, value));
            }
        }
        Ok(EpochSnapshot {
            shares: parameters.iter().map(Parameter::share).collect(),
            parameters: parameters
                .iter()
                .map(|parameter| parameter.tensor().copy())
                .collect::<candle_core::Result<_>>()?,
            groups: self.shared.groups.borrow().clone(),
            accumulation: self.shared.accumulation.get(),
            metrics: self.shared.metrics.borrow().save(),
            values,
            progress: Progress {
                ordinal: self.view.ordinal,
                ..self.progress()
            },
        })
    }

    fn put_back(&mut self, kept: EpochSnapshot) -> candle_core::Result<()> {
        self.restore_counters(&kept.progress);
        for (parameter, tensor) in self.task.parameters().iter().zip(&kept.parameters) {
            parameter.var().set(tensor)?;
        }
        for (parameter, share) in self.task.parameters().iter().zip(&kept.shares) {
            parameter.set_learning_rate_scale(*share);
        }
        self.shared.set_groups(&kept.groups);
        self.shared.accumulation.set(kept.accumulation);
        self.shared.metrics.borrow_mut().restore(&kept.metrics);
        for (keep, name, owner, value) in kept.values {
            self.shared.values.set(&name, keep, owner, value);
        }
        Ok(())
    }
}

//! Reading and publishing metrics, for every phase.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::TaskView;
use crate::abi::{ErrorAbi, TextAbi};
use crate::error::outcome;
use crate::ext::{MetricAbi, MetricsTable};
use crate::{Phase, Result};

impl<'task> TaskView<'task> {
    /// Value of a metric in the current phase: the mean over the samples of this pass so far.
    ///
    /// Final from `after_epoch` on; `None` if there is no such metric yet.
    ///
    /// ```
    /// # use sconce_plugin_api::TaskView;
    /// fn line(task: &TaskView<'_>) -> String {
    ///     match task.metric("accuracy") {
    ///         Some(accuracy) => format!("accuracy {accuracy:.4}"),
    ///         None => "no accuracy yet".to_owned(),
    ///     }
    /// }
    /// ```
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metric_of(self.phase(), name)
    }

    /// Value of a metric in a given phase; `None` if there is no such metric yet.
    ///
    /// For the current phase it belongs to the pass in progress, otherwise to the last finished pass.
    pub fn metric_of(&self, phase: Phase, name: &str) -> Option<f64> {
        let table = self.tables.metrics?;
        let mut value = f64::NAN;
        // SAFETY: the context was provided with this view, the name is borrowed for the call, and `value` has
        // room for one f64.
        let status = unsafe {
            (table.get)(
                self.abi.context,
                phase.number(),
                TextAbi::new(name),
                &raw mut value,
            )
        };
        (status == 0).then_some(value)
    }

    /// All metrics of a phase in the order of their first appearance: `loss`, the task's, those of hooks.
    pub fn metrics_of(&self, phase: Phase) -> Metrics<'task> {
        let count = self.tables.metrics.map_or(0, |table| {
            // SAFETY: the context was provided with this view.
            unsafe { (table.count)(self.abi.context, phase.number()) }
        });
        Metrics {
            table: self.tables.metrics,
            context: self.abi.context,
            phase: phase.number(),
            next: 0,
            count,
            view: PhantomData,
        }
    }

    /// Publishes a metric in the current phase, visible until the phase's next pass begins.
    ///
    /// Later hooks at this point and all hooks at later points see it. At `after_cycle` the current phase is
    /// training: publish a validation metric at `after_epoch(val)` instead.
    ///
    /// A hook that publishes metrics lists them in its attribute (`publishes = ["grad_norm"]`), so that
    /// `sconce check` knows them.
    ///
    /// # Errors
    ///
    /// If the name is empty, longer than 256 bytes, contains control characters, or belongs to a metric of
    /// the task (`loss`).
    #[track_caller]
    pub fn publish_metric(&self, name: &str, value: f64) -> Result<()> {
        let table = Self::table(self.tables.metrics, MetricsTable::ID)?;
        let mut error = ErrorAbi::new();
        // SAFETY: the context was provided with this view; name and error are borrowed for the call.
        let status =
            unsafe { (table.publish)(self.abi.context, TextAbi::new(name), value, &raw mut error) };
        outcome(status, &error)
    }
}

/// Iterator over the names and values of a phase's metrics.
pub struct Metrics<'task> {
    table: Option<&'static MetricsTable>,
    context: *const c_void,
    phase: u32,
    next: usize,
    count: usize,
    view: PhantomData<&'task ()>,
}

impl<'task> Iterator for Metrics<'task> {
    type Item = (&'task str, f64);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let mut metric = MetricAbi {
            name: TextAbi::EMPTY,
            value: f64::NAN,
        };
        // SAFETY: the context was provided with the view that this iterator borrows; `metric` has room for
        // one metric, and the host keeps its name alive until the end of the run.
        let name = unsafe {
            let status = (self.table?.at)(self.context, self.phase, self.next, &raw mut metric);
            (status == 0).then(|| metric.name.read()).flatten()?
        };
        self.next += 1;
        Some((name, metric.value))
    }
}

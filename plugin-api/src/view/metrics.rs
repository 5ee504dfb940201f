//! Metrics of every phase: reading and publishing.

use std::ffi::c_void;
use std::marker::PhantomData;

use super::TaskView;
use crate::abi::{ErrorAbi, TextAbi};
use crate::export::outcome;
use crate::ext::{MetricAbi, MetricsTable};
use crate::{Phase, Result};

impl<'task> TaskView<'task> {
    /// The metric of this name in the current phase: the mean over the samples of this pass so
    /// far, final from `after_epoch` on.
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

    /// The metric of this name in a phase: of the pass under way where it is the current phase,
    /// else of the last finished one.
    pub fn metric_of(&self, phase: Phase, name: &str) -> Option<f64> {
        let table = self.tables.metrics?;
        let mut value = f64::NAN;
        // SAFETY: the context came with this view, the name is borrowed for the call, and `value`
        // is a place for one f64.
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

    /// All metrics of a phase, in the order in which they first appeared: `loss`, the task's, then
    /// those that hooks publish.
    pub fn metrics_of(&self, phase: Phase) -> Metrics<'task> {
        let count = self.tables.metrics.map_or(0, |table| {
            // SAFETY: the context came with this view.
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

    /// Publishes a metric in the current phase (at `after_cycle` that is the training; a metric of
    /// the validation belongs in `after_epoch` of that phase): later hooks at this point and all hooks after it
    /// see it, until the phase's next pass begins.
    ///
    /// A hook that publishes metrics names them in its attribute (`publishes = ["grad_norm"]`), so
    /// that `sconce check` knows them.
    ///
    /// # Errors
    ///
    /// Where the name is empty, longer than 256 bytes, has control characters, or belongs to the
    /// task (`loss`).
    #[track_caller]
    pub fn publish_metric(&mut self, name: &str, value: f64) -> Result<()> {
        let table = Self::table(self.tables.metrics, MetricsTable::ID)?;
        let mut error = ErrorAbi::new();
        // SAFETY: the context came with this view; name and error are borrowed for the call.
        let status =
            unsafe { (table.publish)(self.abi.context, TextAbi::new(name), value, &raw mut error) };
        outcome(status, &error)
    }
}

/// The metrics of a phase: an iterator over names and values.
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
        // SAFETY: the context came with the view that this iterator borrows; `metric` is a place
        // for one metric; the host keeps its name until the end of the run.
        let name = unsafe {
            let status = (self.table?.at)(self.context, self.phase, self.next, &raw mut metric);
            (status == 0).then(|| metric.name.read()).flatten()?
        };
        self.next += 1;
        Some((name, metric.value))
    }
}

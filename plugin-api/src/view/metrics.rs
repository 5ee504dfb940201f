//! Reading and publishing metrics, for every phase.

use super::TaskView;
use crate::error::outcome;
use crate::ext::MetricsClient;
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
        self.host.metrics().ok()?.get(phase.number(), name)
    }

    /// All metrics of a phase in the order of their first appearance: `loss`, the task's, those of hooks.
    pub fn metrics_of(&self, phase: Phase) -> Metrics<'task> {
        let calls = self.host.metrics().ok();
        let count = calls.map_or(0, |metrics| metrics.count(phase.number()));
        Metrics {
            calls,
            phase: phase.number(),
            next: 0,
            count,
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
        outcome(self.host.metrics()?.publish(name, value))
    }
}

/// Iterator over the names and values of a phase's metrics.
pub struct Metrics<'task> {
    calls: Option<MetricsClient<'task>>,
    phase: u32,
    next: usize,
    count: usize,
}

impl<'task> Iterator for Metrics<'task> {
    type Item = (&'task str, f64);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let metric = self.calls?.at(self.phase, self.next)?;
        // SAFETY: the host keeps the name alive until the end of the run.
        let name = unsafe { metric.name.read() }?;
        self.next += 1;
        Some((name, metric.value))
    }
}

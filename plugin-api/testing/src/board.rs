//! The metrics of every phase, in the test kit.

use std::rc::Rc;

use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::check_name;

/// Metrics of all phases.
#[derive(Clone, Debug, Default)]
pub(super) struct Board {
    phases: [Vec<FakeMetric>; 4],
    /// Interned names, which live until the end of the run.
    names: Vec<Rc<str>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FakeMetric {
    pub(super) name: Rc<str>,
    pub(super) value: f64,
    is_the_tasks: bool,
}

impl Board {
    pub(super) fn of(&self, phase: Phase) -> &[FakeMetric] {
        self.phases.get(phase as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get(&self, phase: Phase, name: &str) -> Option<f64> {
        let mut metrics = self.of(phase).iter();
        metrics
            .find(|metric| &*metric.name == name)
            .map(|metric| metric.value)
    }

    /// Removes the phase's metrics at the start of a pass over its data.
    pub(super) fn begin(&mut self, phase: Phase) {
        if let Some(metrics) = self.phases.get_mut(phase as usize) {
            metrics.clear();
        }
    }

    pub(super) fn set(&mut self, phase: Phase, name: &str, value: f64, is_the_tasks: bool) {
        let name = self.intern(name);
        let Some(metrics) = self.phases.get_mut(phase as usize) else {
            return;
        };
        let metric = FakeMetric {
            name,
            value,
            is_the_tasks,
        };
        match metrics.iter_mut().find(|known| known.name == metric.name) {
            Some(known) => *known = metric,
            None => metrics.push(metric),
        }
    }

    pub(super) fn publish(&mut self, phase: Phase, name: &str, value: f64) -> Result<(), String> {
        check_name("a metric's name", name)?;
        let mut metrics = self.of(phase).iter();
        if metrics.any(|known| &*known.name == name && known.is_the_tasks) {
            return Err(format!("the metric `{name}` is the task's"));
        }
        self.set(phase, name, value, false);
        Ok(())
    }

    /// Restores earlier metrics; interned names keep their addresses.
    pub(super) fn restore(&mut self, board: &Board) {
        self.phases.clone_from(&board.phases);
    }

    fn intern(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.iter().find(|known| &***known == name) {
            return Rc::clone(known);
        }
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        name
    }
}

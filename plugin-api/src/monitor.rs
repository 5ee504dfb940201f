//! References to metrics in a hook's configuration.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Phase, Result, Setup, TaskView, bail};

/// A metric that a hook watches: `accuracy`, or `val/accuracy` for that of a given phase.
///
/// As a field of a hook's configuration it lets `sconce check` report a mistyped name before training begins:
/// the host knows the task's metrics and those that the run's hooks publish.
///
/// ```
/// use sconce_plugin_api::{Monitor, Phase, TaskView};
///
/// fn watched(task: &TaskView<'_>, monitor: &Monitor) -> Option<f64> {
///     monitor.value(task, Phase::Val)
/// }
///
/// let monitor: Monitor = serde_json::from_str("\"train/loss\"").unwrap();
/// assert_eq!((monitor.phase(), monitor.name()), (Some(Phase::Train), "loss"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monitor {
    text: String,
    /// Byte offset of the metric's name in `text`.
    name: usize,
    phase: Option<Phase>,
}

/// The `format` that marks a string in a JSON Schema as a metric for the host to check.
pub const METRIC_FORMAT: &str = "metric";

impl Monitor {
    /// Parses a reference: a phase's name followed by a slash selects the phase, the rest is the metric's
    /// name.
    pub fn new(text: impl Into<String>) -> Monitor {
        let text = text.into();
        let prefix = text.split_once('/').map(|(prefix, _)| prefix);
        let phase = Phase::ALL
            .into_iter()
            .find(|phase| prefix == Some(phase.name()));
        let name = phase.map_or(0, |phase| phase.name().len() + 1);
        Monitor { text, name, phase }
    }

    /// The metric's name.
    pub fn name(&self) -> &str {
        self.text.get(self.name..).unwrap_or_default()
    }

    /// The phase of the metric; `None` if the text names none.
    pub fn phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Checks at a hook's creation that the metric can have a value during training.
    ///
    /// The phase is that of the metric or, if it names none, `default`. Only warns if validations run on
    /// request alone; does nothing if the host provides no [plan](Setup::plan).
    ///
    /// # Errors
    ///
    /// If the phase has no data, or comes after training.
    pub fn check(&self, setup: &Setup<'_>, default: Phase) -> Result<()> {
        let Some(plan) = setup.plan()? else {
            return Ok(());
        };
        let (phase, name) = (self.phase.unwrap_or(default), self.name());
        if !matches!(phase, Phase::Train | Phase::Val) {
            bail!(
                "`{self}` has no value while the run is trained: the phase `{}` comes afterwards; watch \
                 `val/{name}` or `train/{name}`",
                phase.name()
            );
        }
        match plan.phase(phase) {
            None => bail!(
                "`{self}` never has a value: it is a metric of the phase `{}`, for which there is no data; \
                 watch `train/{name}`, or give the run data for it",
                phase.name()
            ),
            Some(found) if found.passes == 0 && plan.epochs > 0 => setup.warn(format_args!(
                "`{self}` has no value unless a hook asks for a validation: `train.validate_every` is 0; \
                 watch `train/{name}`, or validate"
            )),
            Some(_) => {}
        }
        Ok(())
    }

    /// The metric's current value, in its phase or, if it names none, in `default`.
    pub fn value(&self, task: &TaskView<'_>, default: Phase) -> Option<f64> {
        task.metric_of(self.phase.unwrap_or(default), self.name())
    }
}

impl fmt::Display for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Monitor {
    fn from(text: &str) -> Self {
        Monitor::new(text)
    }
}

impl Serialize for Monitor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Monitor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Monitor::new)
    }
}

impl JsonSchema for Monitor {
    fn schema_name() -> Cow<'static, str> {
        "Monitor".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": METRIC_FORMAT, "minLength": 1})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_in_front_is_the_phase_and_any_other_slash_is_the_names() {
        let parts = |text: &str| {
            let monitor = Monitor::new(text);
            (monitor.phase(), monitor.name().to_owned())
        };
        assert_eq!(parts("accuracy"), (None, "accuracy".to_owned()));
        assert_eq!(
            parts("val/accuracy"),
            (Some(Phase::Val), "accuracy".to_owned())
        );
        assert_eq!(parts("grad_norm/fc1"), (None, "grad_norm/fc1".to_owned()));
        assert_eq!(parts("test/"), (Some(Phase::Test), String::new()));
        assert_eq!(Monitor::new("val/loss").to_string(), "val/loss");
    }
}

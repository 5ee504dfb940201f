//! Observation of what hooks do to a run, for the conformance suite.

use sconce_plugin_api::ext::Collection;

/// Observes everything that hooks request, publish and may write to, and can refuse it.
pub trait Witness {
    /// Called before a hook's action takes effect.
    ///
    /// # Errors
    ///
    /// The reason for a refusal: the hook receives the message as the host's answer.
    fn sees(&self, hook: &str, action: &HookAction<'_>) -> Result<(), String>;
}

/// A hook's action on a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HookAction<'a> {
    /// A request that is allowed at the current mount point.
    Asks {
        /// Name of the request.
        request: &'static str,
        /// Numeric argument.
        number: f64,
        /// Text argument.
        text: &'a str,
    },
    /// Publishing a metric.
    Metric {
        /// Name of the metric.
        name: &'a str,
        /// Its value.
        value: f64,
    },
    /// Publishing a value or a tensor.
    Value {
        /// Its name.
        name: &'a str,
        /// The value as JSON; `None` for a tensor.
        json: Option<&'a str>,
    },
    /// Giving the batch's loss.
    Loss {
        /// Its value.
        value: f64,
    },
    /// Borrowing a tensor for writing.
    Writes(Collection),
}

//! What hooks do to a run, told to somebody who wants to know: the conformance suite.

use sconce_plugin_api::ext::Collection;

/// Is told of all that hooks ask for, publish and may write to, and can have it refused.
pub trait Witness {
    /// A hook does something to the run.
    ///
    /// # Errors
    ///
    /// Why it may not: the hook gets the message as the host's answer.
    fn sees(&self, hook: &str, deed: &Deed<'_>) -> Result<(), String>;
}

/// Something that a hook does to a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed<'a> {
    /// It asks for something, which is legal where it is.
    Asks {
        /// The request's name.
        request: &'static str,
        /// The number that goes with it.
        number: f64,
        /// The text that goes with it.
        text: &'a str,
    },
    /// It publishes a metric.
    Metric {
        /// The metric's name.
        name: &'a str,
        /// Its value.
        value: f64,
    },
    /// It publishes a value or a tensor.
    Value {
        /// Its name.
        name: &'a str,
        /// The value as JSON; nothing for a tensor.
        json: Option<&'a str>,
    },
    /// It is lent a tensor to write to.
    Writes(Collection),
}

//! Text that the run's model writes for hooks.

use sconce_plugin_api::ext::{TextRequest, WrittenText};

/// Writes text with the model that is trained, and the parameters that it has at the time.
pub trait WritesText {
    /// Writes on from each prompt of a request.
    ///
    /// # Errors
    ///
    /// Why it can't: the model isn't one of text, a prompt or an option can't be used, or the model can't be run.
    fn write(&self, request: &TextRequest) -> Result<Vec<WrittenText>, String>;
}

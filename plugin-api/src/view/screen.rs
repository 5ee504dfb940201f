//! The terminal: its width, and the status line below all messages.

use super::TaskView;
use crate::abi::TextAbi;

impl TaskView<'_> {
    /// Width in columns of the terminal that messages go to.
    ///
    /// `None` if they go to a file, a pipe, or a terminal that cannot clear a line.
    pub fn screen_columns(&self) -> Option<usize> {
        let table = self.tables.screen?;
        // SAFETY: the context was provided with this view.
        let columns = unsafe { (table.columns)(self.abi.context) };
        (columns > 0).then_some(columns as usize)
    }

    /// Sets the status line below all messages, replacing that of any hook; empty text removes it.
    ///
    /// The host keeps the line last as messages are printed, and truncates it to the terminal's width. Does
    /// nothing without a terminal.
    ///
    /// ```
    /// # use sconce_plugin_api::TaskView;
    /// fn show(task: &TaskView<'_>) {
    ///     if task.screen_columns().is_some() {
    ///         task.set_status(&format!("{} of {}", task.batch(), task.batches()));
    ///     }
    /// }
    /// ```
    pub fn set_status(&self, text: &str) {
        if let Some(table) = self.tables.screen {
            // SAFETY: the context was provided with this view; the text is borrowed for the call.
            unsafe { (table.status)(self.abi.context, TextAbi::new(text)) };
        }
    }
}

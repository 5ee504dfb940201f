//! The terminal: its width, and the line below all messages.

use super::TaskView;
use crate::abi::TextAbi;

impl TaskView<'_> {
    /// How many columns the terminal has that messages go to; nothing where they go to a file, a
    /// pipe, or a terminal that can't clear a line.
    pub fn screen_columns(&self) -> Option<usize> {
        let table = self.tables.screen?;
        // SAFETY: the context came with this view.
        let columns = unsafe { (table.columns)(self.abi.context) };
        (columns > 0).then_some(columns as usize)
    }

    /// Shows a line below all messages, in the place of the one before, whoever's it was; an empty
    /// text takes it away. Nothing happens where there is no terminal. The host keeps it the last
    /// line when messages come; a line as wide as the terminal is cut off.
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
            // SAFETY: the context came with this view; the text is borrowed for the call.
            unsafe { (table.status)(self.abi.context, TextAbi::new(text)) };
        }
    }
}

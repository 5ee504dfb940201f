//! The terminal: its width, and the status line below all messages.

use super::TaskView;

/// The terminal that messages go to; see [`TaskView::screen`].
pub struct Screen<'task> {
    view: TaskView<'task>,
    columns: u32,
}

impl<'task> TaskView<'task> {
    /// The terminal that messages go to.
    ///
    /// `None` if they go to a file, a pipe, or a terminal that cannot clear a line.
    ///
    /// ```
    /// # use sconce_plugin_api::TaskView;
    /// fn show(task: &TaskView<'_>) {
    ///     if let Some(screen) = task.screen() {
    ///         screen.set_status(&format!("{} of {}", task.batch(), task.batches()));
    ///     }
    /// }
    /// ```
    pub fn screen(&self) -> Option<Screen<'task>> {
        let columns = self.host.screen().ok()?.columns();
        (columns > 0).then_some(Screen {
            view: TaskView { ..*self },
            columns,
        })
    }
}

impl Screen<'_> {
    /// Its width in columns.
    pub fn columns(&self) -> usize {
        self.columns as usize
    }

    /// Sets the status line below all messages, replacing that of any hook; empty text removes it.
    ///
    /// The host keeps the line last as messages are printed, and truncates it to the terminal's width.
    pub fn set_status(&self, text: &str) {
        if let Ok(screen) = self.view.host.screen() {
            screen.status(text);
        }
    }
}

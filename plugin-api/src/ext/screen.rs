//! `sconce.screen/1`: the terminal that messages go to, and its status line.

use super::extension;

/// The terminal that messages go to, and its status line.
#[extension("sconce.screen/1")]
pub trait Screen {
    /// Width of the terminal in columns; 0 if messages do not go to a terminal.
    #[ahead]
    fn columns(&self) -> u32;

    /// Sets the status line below all messages, replacing the previous one; empty text removes it.
    #[posted]
    fn status(&self, text: &str);
}

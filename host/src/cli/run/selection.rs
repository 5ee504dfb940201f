//! Options that select which of the manifest's hooks are used.

use clap::Args;

use crate::session::Selection;

/// Selection of the manifest's hooks.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct SelectionOptions {
    /// Disables all hooks, and opens no plugin.
    #[arg(long)]
    no_plugins: bool,
    /// Disables all hooks but this one, by its name in the run; may be given several times.
    #[arg(long, value_name = "HOOK", conflicts_with = "no_plugins")]
    only: Vec<String>,
    /// Disables this hook, by its name in the run; may be given several times.
    #[arg(long, value_name = "HOOK", conflicts_with = "no_plugins")]
    skip: Vec<String>,
}

impl SelectionOptions {
    /// The selection that they make.
    pub(in crate::cli) fn selection(&self) -> Selection {
        Selection {
            no_plugins: self.no_plugins,
            only: self.only.clone(),
            skip: self.skip.clone(),
        }
    }
}

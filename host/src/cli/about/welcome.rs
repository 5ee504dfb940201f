//! `sconce` without a command: what is here, and what to do next.

use crate::cli::plugins::new_plugin::{standard_plugins, this_program};
use crate::cli::show::output;
use crate::exit;
use crate::plugin::search::{self, Inventory};
use crate::version::HOST_VERSION;

/// Prints what is installed, and a line for each command to begin with.
pub(in crate::cli) fn welcome() -> u8 {
    let mut directories: Vec<_> = standard_plugins().into_iter().collect();
    directories.extend(search::from_environment());
    let inventory = Inventory::search(&directories)
        .with_installed()
        .without_shadowed();
    let plugins = inventory.plugins.len();
    let hooks: usize = (inventory.plugins.iter())
        .map(|plugin| plugin.metadata.hooks.len())
        .sum();
    let program = this_program();
    output::line(&format!(
        "{HOST_VERSION}: trains candle models, with hooks from shared libraries"
    ));
    if plugins == 0 {
        output::line(&format!(
            "no plugins are installed: `{program} install-plugins --from DIR` does that, `{program} env` says where it looks"
        ));
    } else {
        output::line(&format!(
            "{hooks} hooks of {plugins} plugins are here; `{program} plugins` lists them"
        ));
    }
    output::line("");
    for (command, what) in [
        (
            "demo",
            "trains on digits, which takes seconds, and shows a report",
        ),
        ("new-run", "writes a manifest, from some questions"),
        (
            "run run.json",
            "trains as a manifest says; `check` and `summary` look at it first",
        ),
        (
            "new-plugin NAME",
            "writes a hook of your own, in Rust, C or Python, with its tests",
        ),
        (
            "runs",
            "lists the runs below this directory; `compare` compares them",
        ),
        (
            "docs WORD",
            "searches the documentation; without a word, opens it",
        ),
        ("help", "lists all commands; `help COMMAND` explains one"),
    ] {
        output::line(&format!("  {program} {command:<16} {what}"));
    }
    exit::DONE
}

//! `sconce completions` and `sconce man`: shell completions and manual pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;

/// Arguments of `sconce completions`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell to complete for.
    shell: Shell,
}

/// Arguments of `sconce man`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Directory to write the pages to: `sconce.1`, `sconce-run.1` and so on.
    directory: PathBuf,
}

/// Prints the completion script of a shell.
pub(in crate::cli) fn completions(arguments: &CompletionsArgs) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "sconce", &mut script);
    output::block(String::from_utf8_lossy(&script).trim_end());
    exit::DONE
}

/// Writes the manual pages.
pub(in crate::cli) fn manual(arguments: &ManArgs) -> Result<u8, StartFailure> {
    let written = fs_err::create_dir_all(&arguments.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &arguments.directory));
    written.map_err(|error| {
        StartFailure::results(vec![Diagnostic::new(format!(
            "the manual can't be written: {error}"
        ))])
    })?;
    Ok(exit::DONE)
}

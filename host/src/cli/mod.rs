//! The command line: one subcommand, one file.
//!
//! A program with a task of its own calls [`main`] too and has all of it.

mod check;
mod hooks_table;
mod inspect;
mod output;
mod plugins;
mod record;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Trains candle models, with hooks from shared libraries.
#[derive(Debug, Parser)]
#[command(name = "sconce", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trains what a manifest says.
    Run(run::RunArgs),
    /// Checks a manifest, its plugins and its data without training, and prints the order of hooks.
    Check(check::CheckArgs),
    /// Lists the plugins in directories, with their hooks.
    Plugins(plugins::PluginsArgs),
    /// Shows what one library is and has.
    Inspect(inspect::InspectArgs),
}

/// The arguments of every command that reads a manifest.
#[derive(Debug, Args)]
struct ManifestArgs {
    /// The run manifest, a JSON file.
    file: PathBuf,
    /// Sets a value of the manifest: `train.epochs=3`, `hooks[0].config.every=5`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// A directory to look for plugins in, before the manifest's and those of `SCONCE_PLUGIN_PATH`.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
}

/// Runs the command line of this process, and gives back its exit code (see [`crate::exit`]).
pub fn main() -> ExitCode {
    let code = match Cli::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Plugins(arguments) => plugins::plugins(&arguments),
        Command::Inspect(arguments) => inspect::inspect_library(&arguments),
    };
    ExitCode::from(code)
}

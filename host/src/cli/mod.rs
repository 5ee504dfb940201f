//! The command line.
//!
//! **Parts.** A folder for each group of commands: `manifests`, `data`, `run`, `sweep`, `ranks`, `trained`, `past_runs`, `board`, `plugins` and
//! `about`. What several need is beside them: `show` for what is printed, `process` about the process and its arguments, `prepare` and `resume` about the run that a
//! command means.
//!
//! A program with its own task calls [`main_with`] and has every command.

mod about;
mod board;
mod data;
mod manifests;
mod past_runs;
mod plugins;
mod prepare;
mod process;
mod ranks;
mod resume;
mod run;
mod show;
#[cfg(unix)]
mod sweep;
mod trained;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::allocator;
use crate::clock;
use crate::exit;
use crate::faults;
use crate::isolation;
use crate::manifest::{LimitsConfig, Overlay};
use crate::plugin::{library, trial};
use crate::session::{FromManifest, StartFailure, TaskBuilder, rehearsal};
use crate::validate as suite;
use about::{docs, env, shell, welcome};
use manifests::{check, demo, new_run, schema, summary};
use process::{near_miss, paths, signals, stack, variables};
#[cfg(unix)]
use ranks::launch;
use ranks::team;
use show::{output, stdout};

/// Trains candle models, with hooks from shared libraries.
#[derive(Debug, Parser)]
#[command(name = "sconce", version, about, max_term_width = 100)]
struct Cli {
    /// Without one: what is installed, and what to do next.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trains on digits with the live view, and shows the report: a first look, in seconds.
    Demo(demo::DemoArgs),
    /// Shows the documentation that came with this program, or searches it: `sconce docs accumulate`.
    Docs(docs::DocsArgs),
    /// Writes a plugin with a hook in Rust, C, C++ or Python, its tests, and a manifest that uses it.
    NewPlugin(plugins::new_plugin::NewPluginArgs),
    /// Prints the header for plugins in C or C++.
    Header(plugins::header::HeaderArgs),
    /// Writes an initial manifest, from questions or arguments.
    NewRun(new_run::NewRunArgs),
    /// Makes token files of texts, by a tokenizer or one that it learns from them.
    Tokenize(data::tokenize::TokenizeArgs),
    /// Trains a model as described by a manifest.
    Run(run::RunArgs),
    /// Trains with several processes on this machine, without an MPI.
    #[cfg(unix)]
    Launch(launch::LaunchArgs),
    /// Trains a manifest many times with different values, and looks for the best.
    #[cfg(unix)]
    Sweep(sweep::SweepArgs),
    /// Checks that the processes of a launcher can talk to each other: `mpirun -n 4 sconce team`.
    Team(team::TeamArgs),
    /// Checks a manifest, its plugins and its data without training, and prints the order of hooks.
    Check(check::CheckArgs),
    /// Prints the model's layers with their shapes, parameters and operations.
    Summary(summary::SummaryArgs),
    /// Computes loss and metrics of a trained model on the manifest's data.
    Eval(trained::eval::EvalArgs),
    /// Prints a trained model's predictions for samples, as JSON lines or CSV.
    Predict(trained::predict::PredictArgs),
    /// Measures how well simple classifiers do on a trained model's features: a linear one, and nearest neighbours.
    Probe(trained::probe::ProbeArgs),
    /// Writes a pretrained model with the adapters that a run has trained beside it.
    Merge(trained::merge::MergeArgs),
    /// Has a trained model of text write on from a prompt.
    Generate(trained::generate::GenerateArgs),
    /// Writes a trained model, with its preprocessing, for other programs.
    Export(trained::export::ExportArgs),
    /// Lists the plugins in directories, with their hooks.
    Plugins(plugins::PluginsArgs),
    /// Describes one library.
    Inspect(plugins::inspect::InspectArgs),
    /// Installs plugins where every run finds them: the standard ones, or others.
    InstallPlugins(plugins::install_plugins::InstallPluginsArgs),
    /// Lists, adds and removes the keys whose signatures of plugins are trusted.
    Trust(plugins::trust::TrustArgs),
    /// Prints the manifest's JSON Schema with the hooks of the plugins found, for editors.
    Schema(schema::SchemaArgs),
    /// Lists the runs in a directory, with their states, best metrics and checkpoints.
    Runs(past_runs::runs::RunsArgs),
    /// Gives the hooks of a running run new libraries, with their states carried over.
    Reload(plugins::reload::ReloadArgs),
    /// Compares runs: metrics, curves, and differences between their manifests.
    Compare(past_runs::compare::CompareArgs),
    /// Shows the runs in a directory as a page for a browser on this machine: table, curves, sweeps, pictures.
    Board(board::BoardArgs),
    /// Prints what a bug report needs to say about program, machine and plugins.
    Env(env::EnvArgs),
    /// Prints a completion script for a shell.
    Completions(shell::CompletionsArgs),
    /// Writes the manual pages.
    Man(shell::ManArgs),
    /// Runs the conformance suite on a plugin, for its author.
    Validate(plugins::validate::ValidateArgs),
    /// Opens libraries and reports success: for trial loads, see [`crate::plugin::trial`].
    #[command(name = trial::COMMAND, hide = true)]
    TrialLoad {
        /// Libraries to open.
        libraries: Vec<PathBuf>,
    },
    /// Creates hooks in this process, for `check`: see [`crate::session::rehearse`].
    #[command(name = rehearsal::COMMAND, hide = true)]
    CreateHooks,
    /// Runs one hook in this process: see [`crate::isolation`].
    #[command(name = isolation::COMMAND, hide = true)]
    HookHost {
        /// Process ID of the run.
        #[arg(long)]
        parent: u32,
        /// Rules of the sandbox.
        #[arg(long)]
        rules: String,
        /// Library to open.
        #[arg(long)]
        library: PathBuf,
        /// Descriptors of the channel.
        files: Vec<i32>,
    },
    /// Runs one test of the conformance suite: see [`crate::validate`].
    #[command(name = suite::COMMAND, hide = true)]
    ValidateTest,
}

/// Arguments of every command that reads a manifest.
#[derive(Debug, Args)]
struct ManifestArgs {
    /// Run manifest, a JSON file.
    file: PathBuf,
    /// Manifest merged over the first one and earlier layers: objects are merged, everything else is
    /// replaced. Relative paths in it start at the first manifest's directory.
    #[arg(long = "layer", value_name = "FILE")]
    layers: Vec<PathBuf>,
    /// Sets a value of the manifest, after `SCONCE_SET` and the variables `SCONCE_SET_…`: `train.epochs=3`,
    /// `hooks[0].config.every=5`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Directory to search for plugins, before the manifest's, those of `SCONCE_PLUGIN_PATH`, and
    /// those where plugins are installed.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
}

impl ManifestArgs {
    /// Returns the layers and settings to apply to the manifest.
    fn overlay(&self) -> Overlay {
        Overlay::new(&self.layers, &self.set)
    }
}

/// Parses the arguments of this process.
fn arguments() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    command.build();
    let matches = command.clone().try_get_matches().map_err(|mut error| {
        let words: Vec<String> = std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        near_miss::explain(&mut error, &command, &words);
        error
    })?;
    paths::check(&command, &matches)?;
    Cli::from_arg_matches(&matches)
}

/// Runs the command line of this process and returns its exit code (see [`crate::exit`]). The task is
/// the manifest's model on its data.
pub fn main() -> ExitCode {
    main_with(&FromManifest)
}

/// Runs the command line of a program with its own task. It has all commands, hooks and checkpoints
/// of the `sconce` binary.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use sconce::data::Splits;
/// use sconce::manifest::Manifest;
/// use sconce::session::{self, StartFailure};
/// use sconce::task::Task;
///
/// fn build(manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, StartFailure> {
///     // A program with a task of its own makes it here.
///     Ok(Box::new(session::build_task(manifest, data)?))
/// }
///
/// fn main() -> ExitCode {
///     sconce::cli::main_with(&build)
/// }
/// ```
pub fn main_with(tasks: &dyn TaskBuilder) -> ExitCode {
    ExitCode::from(code_with(tasks))
}

/// As [`main`], for callers in other languages: the exit code as a number.
#[doc(hidden)]
pub fn main_code() -> u8 {
    code_with(&FromManifest)
}

fn code_with(tasks: &dyn TaskBuilder) -> u8 {
    clock::process_start();
    allocator::keep_freed_memory();
    stdout::keep();
    stack::on_enough(|| answer(tasks))
}

fn answer(tasks: &dyn TaskBuilder) -> u8 {
    let code = match arguments() {
        Ok(Cli { command: None }) => output::finish(welcome::welcome()),
        Ok(Cli {
            command: Some(command),
        }) => output::finish(obey(command, tasks)),
        Err(answer) => output::finish(tell(&answer)),
    };
    if library::is_any_open() {
        faults::leave(LimitsConfig::default().load_limit());
    }
    code
}

/// Prints help, the version, or an error of the command line.
fn tell(answer: &clap::Error) -> u8 {
    if answer.use_stderr() {
        // A closed standard error is ignored.
        drop(answer.print());
        return exit::USAGE;
    }
    let text = answer.render();
    let text = if output::has_colour() {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    output::styled(text.trim_end());
    exit::DONE
}

/// Runs a command and returns its exit code.
fn obey(command: Command, tasks: &dyn TaskBuilder) -> u8 {
    if let Command::ValidateTest = command {
        // This process is already isolated: no further one for a trial load.
        return suite::answer();
    }
    if let Command::CreateHooks = command {
        return rehearsal::answer();
    }
    if let Command::HookHost {
        parent,
        rules,
        library,
        files,
    } = &command
    {
        return isolation::answer(*parent, files, library, rules);
    }
    if let Err(failure) = variables::check() {
        output::diagnostics(&failure.diagnostics);
        return failure.code;
    }
    trial::enable();
    #[cfg(unix)]
    launch::stay_with_launcher();
    signals::let_writes_fail();
    let result = match command {
        Command::Demo(arguments) => demo::demo(&arguments, tasks),
        Command::Docs(arguments) => docs::docs(&arguments),
        Command::NewPlugin(arguments) => plugins::new_plugin::new_plugin(&arguments),
        Command::Header(arguments) => Ok(plugins::header::header(&arguments)),
        Command::NewRun(arguments) => new_run::new_run(&arguments),
        Command::Tokenize(arguments) => data::tokenize::tokenize_texts(&arguments),
        Command::Run(arguments) => run::run(&arguments, tasks),
        #[cfg(unix)]
        Command::Launch(arguments) => launch::launch(&arguments),
        #[cfg(unix)]
        Command::Sweep(arguments) => sweep::sweep(&arguments, tasks),
        Command::Team(arguments) => team::team(&arguments),
        Command::Check(arguments) => check::check(&arguments, tasks),
        Command::Summary(arguments) => summary::summary(&arguments, tasks),
        Command::Eval(arguments) => trained::eval::eval(&arguments, tasks),
        Command::Predict(arguments) => trained::predict::predict(&arguments, tasks),
        Command::Probe(arguments) => trained::probe::probe(&arguments, tasks),
        Command::Merge(arguments) => trained::merge::merge(&arguments),
        Command::Generate(arguments) => trained::generate::generate(&arguments, tasks),
        Command::Export(arguments) => trained::export::export(&arguments, tasks),
        Command::Plugins(arguments) => Ok(plugins::plugins(&arguments)),
        Command::Inspect(arguments) => Ok(plugins::inspect::inspect_library(&arguments)),
        Command::InstallPlugins(arguments) => plugins::install_plugins::install_plugins(&arguments),
        Command::Trust(arguments) => plugins::trust::trust(&arguments),
        Command::Schema(arguments) => schema::schema(&arguments, tasks.source()),
        Command::Runs(arguments) => Ok(past_runs::runs::runs(&arguments)),
        Command::Reload(arguments) => plugins::reload::reload(&arguments),
        Command::Compare(arguments) => Ok(past_runs::compare::compare(&arguments)),
        Command::Board(arguments) => board::board(&arguments),
        Command::Env(arguments) => Ok(env::environment(&arguments)),
        Command::Completions(arguments) => Ok(shell::completions(&arguments)),
        Command::Man(arguments) => shell::manual(&arguments),
        Command::Validate(arguments) => Ok(plugins::validate::validate(&arguments)),
        Command::CreateHooks | Command::ValidateTest | Command::HookHost { .. } => Ok(exit::USAGE),
        Command::TrialLoad { libraries } => Ok(trial::answer(&libraries)),
    };
    result.unwrap_or_else(|failure: StartFailure| {
        output::diagnostics(&failure.diagnostics);
        failure.code
    })
}

//! `sconce demo`: writes a manifest, trains with it, and shows the report.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use serde_json::{Value, json};

use crate::cli::Cli;
use crate::cli::plugins::new_plugin::{standard_plugins, this_program};
use crate::cli::show::manifest_text;
use crate::cli::show::{browser, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::search::{self, Inventory};
use crate::session::{StartFailure, TaskBuilder};
use crate::shell_word::shell_word;

/// Hooks of the demonstration, as far as their plugins are found.
const HOOKS: [&str; 4] = ["console", "csv", "checkpoint", "report"];

/// Arguments of `sconce demo`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Directory for the manifest and the run.
    #[arg(default_value = "sconce-demo")]
    directory: PathBuf,
    /// Number of passes over the digits.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Prints lines instead of the live view, which needs a terminal.
    #[arg(long)]
    plain: bool,
    /// Doesn't open the report in a browser.
    #[arg(long)]
    no_open: bool,
}

pub(in crate::cli) fn demo(
    arguments: &DemoArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let directory = &arguments.directory;
    if directory.exists() {
        let problem = Diagnostic::new(format!("`{}` is there already", directory.display()));
        return Err(StartFailure::usage(vec![problem.hint(
            "name another directory: `sconce demo OTHER`, or remove this one",
        )]));
    }
    let manifest = directory.join("demo.json");
    write(&manifest, arguments.epochs).map_err(|error| {
        let problem = Diagnostic::new(format!("the manifest can't be written: {error}"));
        StartFailure::results(vec![problem])
    })?;
    let run = directory.join("run");
    let is_live = !arguments.plain
        && std::io::stdout().is_terminal()
        && std::io::stderr().is_terminal()
        && std::io::stdin().is_terminal();
    let code = train(&manifest, &run, is_live, tasks)?;
    if code != exit::DONE {
        return Ok(code);
    }
    let program = this_program();
    let report = run.join("report.html");
    if report.exists() {
        let is_shown = !arguments.no_open && is_live && browser::open(&report);
        let shown = if is_shown {
            ", opened in a browser"
        } else {
            ""
        };
        output::line(&format!("the report: {}{shown}", report.display()));
    }
    output::block("\nNext:");
    let word = |path: &Path| shell_word(&path.to_string_lossy()).into_owned();
    let (manifest, run, faster) = (word(&manifest), word(&run), word(&directory.join("faster")));
    for (command, what) in [
        (
            format!("run {manifest} --set optimizer.learning_rate=0.01 --output {faster}"),
            "the same with another learning rate",
        ),
        (format!("compare {run} {faster}"), "both side by side"),
        ("new-run".to_owned(), "a manifest for your own data"),
    ] {
        output::line(&format!("  {program} {command}  # {what}"));
    }
    Ok(code)
}

/// Writes the manifest, with the hooks that are found.
fn write(path: &Path, epochs: u64) -> std::io::Result<()> {
    let directories: Vec<PathBuf> = standard_plugins().into_iter().collect();
    let mut searched = directories.clone();
    searched.extend(search::from_environment());
    let inventory = Inventory::search(&searched)
        .with_installed()
        .without_shadowed();
    let has = |name: &str| {
        let mut plugins = inventory.plugins.iter();
        plugins.any(|plugin| plugin.metadata.hooks.iter().any(|hook| hook.name == *name))
    };
    let hooks: Vec<&str> = HOOKS.into_iter().filter(|name| has(name)).collect();
    let mut manifest = json!({
        "name": "demo",
        "seed": 1,
        "output": "run",
        // Some seconds of training: long enough to look at the live view.
        "model": {"kind": "convnet", "channels": [16, 32], "hidden": [64]},
        "data": {"kind": "synthetic-digits"},
        "optimizer": {"kind": "adamw", "learning_rate": 0.001},
        "train": {"epochs": epochs, "batch_size": 64},
        "hooks": hooks,
    });
    if !directories.is_empty() {
        let directories = directories.iter().map(|place| json!(place));
        manifest["plugins"] = directories.collect::<Value>();
    }
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    fs_err::write(path, manifest_text::text(&manifest))
}

/// Runs `sconce run` in this process.
fn train(
    manifest: &Path,
    output: &Path,
    is_live: bool,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let mut words = vec![
        "sconce".into(),
        "run".into(),
        manifest.as_os_str().to_owned(),
    ];
    words.extend(["--output".into(), output.as_os_str().to_owned()]);
    if is_live {
        words.push("--ui".into());
    }
    let parsed = Cli::try_parse_from(words).map_err(|error| {
        StartFailure::usage(vec![Diagnostic::new(format!(
            "can't start the run: {error}"
        ))])
    })?;
    match parsed.command {
        Some(crate::cli::Command::Run(arguments)) => crate::cli::run::run(&arguments, tasks),
        _ => Ok(exit::USAGE),
    }
}

//! `sconce new-run`: writes an initial manifest, from questions or arguments.
//!
//! - `arguments`, `questions`: what the user says, and is asked.
//! - `start`: kind of data, model and length; from what was found to the manifest.
//! - `look`: what a file is, by its first bytes. `table` with `read_table` and `columns`, `images`, `arrays`: what is in
//!   the data, by the surveys of `sconce-data`, and how it is used. `goal`: classes, numbers or tokens, and their metrics.
//! - `explain`: the text beside the manifest.

mod arguments;
mod arrays;
mod columns;
mod explain;
mod goal;
mod images;
mod look;
mod questions;
mod read_table;
mod start;
mod table;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::schema;
use crate::cli::plugins::new_plugin::{standard_plugins, this_program};
use crate::cli::show::manifest_text;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::{self, TaskSource};
use crate::plugin::search::{self, Inventory};
use crate::session::StartFailure;
pub(in crate::cli) use arguments::NewRunArgs;
use questions::Questions;
use start::NewRunPlan;

/// Hooks of a new run, if their plugins are found.
const HOOKS: [&str; 4] = ["console", "csv", "checkpoint", "report"];

/// Writes the manifest, its schema and an explanation of its keys.
pub(in crate::cli) fn new_run(arguments: &NewRunArgs) -> Result<u8, StartFailure> {
    let usage = |problem| StartFailure::usage(vec![problem]);
    let mut taken = arguments.clone();
    let file = &taken.take_paths().map_err(usage)?;
    let arguments = &taken;
    if file.exists() {
        let problem = Diagnostic::new(format!("`{}` is there already", file.display()));
        return Err(usage(
            problem.hint("name another file: `sconce new-run OTHER.json`"),
        ));
    }
    let asks = !arguments.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut questions = Questions::new(std::io::stdin().lock(), std::io::stderr(), asks);
    let start = NewRunPlan::choose(arguments, &mut questions).map_err(usage)?;

    let mut directories = arguments.plugins.clone();
    if directories.is_empty() {
        directories.extend(standard_plugins());
    }
    let mut searched = directories.clone();
    searched.extend(search::from_environment());
    let inventory = Inventory::search(&searched)
        .with_installed()
        .without_shadowed();
    output::diagnostics(&inventory.problems);
    let has = |name: &&&str| {
        let mut plugins = inventory.plugins.iter();
        plugins.any(|plugin| plugin.metadata.hooks.iter().any(|hook| hook.name == **name))
    };
    let hooks: Vec<Value> = HOOKS
        .iter()
        .filter(has)
        .map(|name| entry(name, &start))
        .collect();

    let base = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let schema_file = format!("{stem}.schema.json");
    let mut manifest = json!({
        "$schema": schema_file,
        "name": name_of(&stem),
        "seed": 1,
    });
    if !directories.is_empty() {
        let seen: Vec<Value> = directories
            .iter()
            .map(|directory| json!(from(base, directory)))
            .collect();
        manifest["plugins"] = json!(seen);
    }
    start.fill(&mut manifest, |path| from(base, path));
    manifest["hooks"] = json!(hooks);

    let (schema, problems) = schema::with_hooks(&inventory, TaskSource::Manifest);
    output::diagnostics(&problems);
    let findings = start.findings();
    let notes = explain::notes(&manifest, &schema, &file.display().to_string());
    let texts = [
        (file.clone(), manifest_text::text(&manifest)),
        (base.join(&schema_file), format!("{schema:#}\n")),
        (base.join(format!("{stem}.md")), notes),
    ];
    for (path, text) in &texts {
        write(path, text).map_err(|error| {
            StartFailure::results(vec![Diagnostic::new(format!(
                "the manifest can't be written: {error}"
            ))])
        })?;
    }
    // Checks that the written manifest is valid.
    manifest::load(file, &manifest::Overlay::default(), TaskSource::Manifest)
        .map_err(StartFailure::usage)?;

    for ((path, _), what) in texts.iter().zip([
        "the manifest",
        "its schema: editors complete and check by it",
        "what its keys mean, and which there are besides",
    ]) {
        output::line(&format!("{}  {what}", path.display()));
    }
    if hooks.is_empty() {
        output::line(
            "No plugins were found: say where they are by `--plugins DIR`, and list hooks.",
        );
    }
    if !findings.is_empty() {
        output::block("");
    }
    for finding in &findings {
        // Names come from the data.
        output::line(finding);
    }
    let program = this_program();
    output::block("\nNext:");
    output::line(&format!("  {program} check {}", file.display()));
    output::line(&format!("  {program} run {}", file.display()));
    Ok(exit::DONE)
}

/// Returns a hook's entry in the manifest.
fn entry(hook: &str, plan: &NewRunPlan) -> Value {
    match hook {
        "checkpoint" => json!({
            "hook": "checkpoint",
            "config": {"best": [{"monitor": plan.best()}], "load_best": true, "keep_last": 1},
        }),
        _ => json!(hook),
    }
}

/// Derives the run's name from the file's.
fn name_of(stem: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    stem.chars().map(plain).collect()
}

/// Path as the manifest must name it: relative paths start at its directory.
fn from(base: &Path, path: &Path) -> PathBuf {
    if base.as_os_str().is_empty() || path.is_absolute() {
        return path.to_owned();
    }
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    fs_err::write(path, text)
}

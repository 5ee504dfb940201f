//! `sconce check`: everything a run does before training.

use clap::Args;
use sconce_plugin_api::Phase;
use sconce_plugin_api::metadata::HookRanks;

use super::{ManifestArgs, hooks_table, output};
use crate::dispatch::HookSpec;
use crate::exit;
use crate::session::{self, FirstWeights, Output, Selection, StartFailure, TaskBuilder};

/// Arguments of `sconce check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn check(arguments: &CheckArgs, tasks: &dyn TaskBuilder) -> Result<u8, StartFailure> {
    let ManifestArgs { file, plugins, .. } = &arguments.manifest;
    let overlay = arguments.manifest.overlay();
    let checked = session::check(
        file,
        &overlay,
        plugins,
        &arguments.selection,
        tasks.source(),
    )?;
    output::diagnostics(&checked.warnings);
    let prepared = checked.prepare(tasks, FirstWeights::Manifest)?;
    output::diagnostics(&prepared.weights_warnings);
    output::diagnostics(&prepared.warnings);
    let (manifest, task) = (&prepared.manifest, prepared.task.as_ref());
    output::diagnostics(&Output::look(&manifest.output)?);
    output::diagnostics(&prepared.rehearse()?);
    let mut rows = vec![
        row(
            "run",
            format!("`{}` in {}", manifest.name, manifest.output.display()),
        ),
        row("seed", manifest.seed.to_string()),
    ];
    if let Some(config) = &manifest.task {
        rows.push(row("task", compact(config)));
    }
    let parameters = task.parameters().element_count();
    rows.push(match &manifest.model {
        Some(model) => row(
            "model",
            format!("{}, {parameters} parameters", compact(model)),
        ),
        None => row("model", format!("the task's, {parameters} parameters")),
    });
    if let Some(data) = &manifest.data {
        rows.push(row("data", compact(data)));
    }
    for phase in [Phase::Train, Phase::Val, Phase::Test] {
        if let Some(data) = task.data(phase) {
            rows.push(row(phase.name(), format!("{} samples", data.len())));
            rows.extend(data.describe().into_iter().map(|line| row("", line)));
        }
    }
    rows.push(row("optimizer", compact(&manifest.optimizer)));
    rows.push(row("train", compact(&manifest.train)));
    for hook in prepared.hooks() {
        let HookSpec {
            name,
            plugin,
            library,
            ranks,
            ..
        } = &hook.spec;
        let where_it_runs = match ranks {
            HookRanks::First => "",
            HookRanks::All => ", on all ranks",
        };
        rows.push(row(
            "hook",
            format!(
                "{name}, from {plugin} in {}{where_it_runs}",
                library.display()
            ),
        ));
    }
    output::table(&rows);
    let specs: Vec<&HookSpec> = prepared.hooks().iter().map(|hook| &hook.spec).collect();
    output::block(&hooks_table::of_specs(&specs));
    Ok(exit::DONE)
}

fn row(key: &str, value: String) -> Vec<String> {
    vec![key.to_owned(), value]
}

/// Formats part of the manifest on one line.
fn compact<T: serde::Serialize>(part: &T) -> String {
    serde_json::to_string(part).unwrap_or_else(|error| error.to_string())
}

//! `sconce check`: everything a run does before training.

use clap::Args;
use sconce_plugin_api::Phase;
use sconce_plugin_api::metadata::HookRanks;

use crate::bridge;
use crate::cli::ManifestArgs;
use crate::cli::run::copies;
use crate::cli::run::hooks_table;
use crate::cli::run::selection::SelectionOptions;
use crate::cli::show::output;
use crate::device_facts::describe_device;
use crate::diagnostic::Diagnostic;
use crate::dispatch::HookSpec;
use crate::exit;
use crate::manifest::{DeviceName, Manifest};
use crate::nn::Precision;
use crate::session::{self, FirstWeights, Output, StartFailure, TaskBuilder};

/// Arguments of `sconce check`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    #[command(flatten)]
    selection: SelectionOptions,
}

pub(in crate::cli) fn check(
    arguments: &CheckArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let ManifestArgs { file, plugins, .. } = &arguments.manifest;
    let overlay = arguments.manifest.overlay();
    let mut checked = session::check(
        file,
        &overlay,
        plugins,
        &arguments.selection.selection(),
        tasks.source(),
    )?;
    output::diagnostics(&checked.warnings);
    let device = on_cpu(&mut checked.manifest);
    let prepared = checked.prepare(tasks, FirstWeights::Manifest)?;
    output::diagnostics(&prepared.weights_warnings());
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
    rows.extend(device.row);
    if let Some(config) = &manifest.task {
        rows.push(row("task", compact(config)));
    }
    let parameters = task.parameters().element_count();
    rows.push(match &manifest.model {
        Some(model) => row(
            "model",
            format!("{}, {parameters} parameters", described(model)),
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
    if let Some(weights) = &prepared.weights {
        rows.push(row("weights", weights.file.display().to_string()));
        rows.extend(weights.lines().into_iter().map(|line| row("", line)));
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
    if device.is_gpu || bridge::always_copies() {
        let batch = manifest.train.batch_size;
        rows.extend(copies::expected(prepared.hooks(), task, batch));
    }
    output::table(&rows);
    let specs: Vec<&HookSpec> = prepared.hooks().iter().map(|hook| &hook.spec).collect();
    output::block(&hooks_table::of_specs(&specs));
    match device.refused {
        Some(failure) => Err(failure),
        None => Ok(exit::DONE),
    }
}

/// The device of the run, as far as this machine and this build have it.
#[derive(Default)]
struct CheckedDevice {
    row: Option<Vec<String>>,
    is_gpu: bool,
    /// Why this build can run there on no machine. What can be checked without the device is checked first.
    refused: Option<StartFailure>,
}

/// Sets the device to the CPU, on which the task is built to be checked. Warns if this machine doesn't have the run's
/// device: the run may be meant for another one.
fn on_cpu(manifest: &mut Manifest) -> CheckedDevice {
    let mut found = CheckedDevice::default();
    if manifest.device.is_cpu() && manifest.precision == Precision::F32 {
        return found;
    }
    found.is_gpu = manifest.device.is_gpu();
    let is = match session::open_device(manifest) {
        Ok(device) => {
            found.is_gpu = !device.is_cpu();
            describe_device(&device).unwrap_or_else(|| "the CPU".to_owned())
        }
        Err(failure) if manifest.device.is_cpu() || !cfg!(feature = "cuda") => {
            found.refused = Some(failure);
            "not for this build".to_owned()
        }
        Err(failure) => {
            let problems = failure.diagnostics.into_iter();
            let warnings: Vec<_> = problems.map(Diagnostic::into_warning).collect();
            output::diagnostics(&warnings);
            "not on this machine".to_owned()
        }
    };
    let text = format!("{}: {is}; in {}", manifest.device, manifest.precision);
    manifest.device = DeviceName::default();
    manifest.precision = Precision::default();
    found.row = Some(row("device", text));
    found
}

fn row(key: &str, value: String) -> Vec<String> {
    vec![key.to_owned(), value]
}

/// Formats the model on one line, of a `config.json` its family alone.
fn described<T: serde::Serialize>(model: &T) -> String {
    let mut value = serde_json::to_value(model).unwrap_or_default();
    if let Some(family) = value.pointer("/config/model_type").cloned() {
        value["config"] = serde_json::json!({ "model_type": family });
    }
    compact(&value)
}

/// Formats part of the manifest on one line.
fn compact<T: serde::Serialize>(part: &T) -> String {
    serde_json::to_string(part).unwrap_or_else(|error| error.to_string())
}

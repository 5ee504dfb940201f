//! `sconce summary`: lists the model's layers.

use clap::Args;
use sconce_plugin_api::Phase;
use serde_json::{Value, json};

use crate::activation_memory::ActivationMemory;
use crate::cli::ManifestArgs;
use crate::cli::prepare;
use crate::cli::show::{nested, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::Manifest;
use crate::nn::Summary;
use crate::session::{StartFailure, TaskBuilder};
use crate::task::Task;
use crate::thousands::grouped;

/// Arguments of `sconce summary`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SummaryArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
    /// Print the list of layers that the model is, as a manifest's `model`, instead of a table.
    #[arg(id = "as_layers", long = "layers")]
    layers: bool,
}

pub(in crate::cli) fn summary(
    arguments: &SummaryArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let (manifest, mut task) = prepare::task(&arguments.manifest, tasks)?;
    if arguments.layers {
        let model = layers(&manifest, task.as_ref())?;
        output::block(&nested::text(&model));
        return Ok(exit::DONE);
    }
    let Some(summary) = task.summary() else {
        let problem = "the task does not say what its model is made of";
        let hint = "its `Task::summary` can, from the `Model` that it has";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    };
    output::table(&rows(&summary));
    output::line(&format!(
        "{} parameters, {} operations for a sample's forward pass",
        grouped(summary.parameters() as u64),
        grouped(summary.flops())
    ));
    let (_, buffers) = crate::weights::counts(task.parameters());
    if buffers > 0 {
        output::line(&format!("{} numbers in buffers", grouped(buffers as u64)));
    }
    let batch = manifest.train.batch_size;
    if let Some(memory) = ActivationMemory::measure(task.as_mut(), batch) {
        output::line(&activations_line(memory, batch));
    }
    Ok(exit::DONE)
}

/// The model as a list of layers of its own.
fn layers(manifest: &Manifest, task: &dyn Task) -> Result<Value, StartFailure> {
    let failed = |problem: String| StartFailure::usage(vec![Diagnostic::new(problem)]);
    let (Some(model), Some(data)) = (&manifest.model, task.data(Phase::Train)) else {
        let problem = "`--layers` is for a model that the manifest describes, with its `data`";
        return Err(failed(problem.to_owned()));
    };
    let layers = model.layers(&data.signal(), data.targets());
    let layers = layers.map_err(|error| failed(error.to_string()))?;
    let layers = serde_json::to_value(layers).map_err(|error| failed(error.to_string()))?;
    Ok(json!({"model": {"kind": "sequential", "layers": layers}}))
}

fn activations_line(memory: ActivationMemory, batch: usize) -> String {
    let sizes = match memory.recomputed {
        0 => size(memory.kept),
        block => format!(
            "{}, and {} while a block is recomputed",
            size(memory.kept),
            size(block)
        ),
    };
    format!("activations kept for the backward pass of a batch of {batch}: {sizes}")
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn rows(summary: &Summary) -> Vec<Vec<String>> {
    let header = ["layer", "kind", "output", "parameters", "operations"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let shape = |shape: &[usize]| {
        let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
        sides.join(" × ")
    };
    let input = ["(input)", "", &shape(&summary.input), "", ""];
    rows.push(input.map(str::to_owned).to_vec());
    for layer in &summary.layers {
        rows.push(vec![
            format!("{}{}", "  ".repeat(layer.depth), layer.name),
            layer.kind.to_owned(),
            shape(&layer.output),
            grouped(layer.parameters as u64),
            grouped(layer.flops),
        ]);
    }
    rows
}

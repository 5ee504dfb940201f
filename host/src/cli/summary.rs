//! `sconce summary`: lists the model's layers.

use std::cell::RefCell;

use clap::Args;
use sconce_plugin_api::Phase;

use super::{ManifestArgs, output, prepare};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::nn::{Pass, StatisticsLog, Summary, ops};
use crate::session::{StartFailure, TaskBuilder};
use crate::task::Task;
use crate::thousands::grouped;

/// Arguments of `sconce summary`.
#[derive(Debug, Args)]
pub(super) struct SummaryArgs {
    #[command(flatten)]
    manifest: ManifestArgs,
}

pub(super) fn summary(
    arguments: &SummaryArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let (manifest, mut task) = prepare::task(&arguments.manifest, tasks)?;
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
    if let Some(memory) = activations(task.as_mut(), batch) {
        output::line(&memory.line(batch));
    }
    Ok(exit::DONE)
}

/// Memory that activations take in a training step, in bytes.
#[derive(Clone, Copy)]
struct ActivationMemory {
    /// Kept from the forward pass for the backward pass.
    kept: usize,
    /// Of the largest block that is recomputed in the backward pass.
    recomputed: usize,
}

impl ActivationMemory {
    fn line(self, batch: usize) -> String {
        let sizes = match self.recomputed {
            0 => size(self.kept),
            block => format!(
                "{}, and {} while a block is recomputed",
                size(self.kept),
                size(block)
            ),
        };
        format!("activations kept for the backward pass of a batch of {batch}: {sizes}")
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Number of samples with which the model is run: batch norms want more than one.
const SAMPLES: u32 = 2;

/// Runs a few samples and scales what they keep to a batch; none if they can't be run, or if nothing is recorded, as
/// of a model of candle's own operations.
fn activations(task: &mut dyn Task, batch: usize) -> Option<ActivationMemory> {
    let data = task.data(Phase::Train)?;
    let indices: Vec<u32> = (0..SAMPLES.min(data.len() as u32)).collect();
    let samples = data.gather(&indices, 0).ok()?;
    let _recording = ops::record();
    let statistics = RefCell::new(StatisticsLog::default());
    let mut pass = Pass::training().collecting(&statistics);
    let outputs = task.forward(&samples, &mut pass).ok()?;
    let loss = task.loss(&samples, &outputs, &mut pass).ok()?;
    let kept = ops::recorded_bytes();
    ops::largest_recomputed();
    ops::backward(&loss, 1.0).ok()?;
    let scaled = |bytes: usize| bytes / indices.len().max(1) * batch;
    (kept > 0).then(|| ActivationMemory {
        kept: scaled(kept),
        recomputed: scaled(ops::largest_recomputed()),
    })
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

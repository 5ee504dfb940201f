//! What is logged before a run.

use std::path::Path;

use sconce_plugin_api::Phase;
use serde_json::Value;

use crate::device_facts::describe_device;
use crate::nn::Precision;
use crate::run::Resume;
use crate::session::Prepared;

/// What is logged before a run: its name, its size, and where it resumes.
pub(crate) fn opening_lines(
    prepared: &Prepared,
    directory: &Path,
    resume: Option<&Resume>,
) -> Vec<String> {
    let task = prepared.task.as_ref();
    let sizes: Vec<String> = [Phase::Train, Phase::Val, Phase::Test]
        .into_iter()
        .filter_map(|phase| Some(format!("{} {phase}", task.data(phase)?.len())))
        .collect();
    let run = format!(
        "run `{}` in {}\n  {} parameters, samples: {}",
        prepared.manifest.name,
        directory.display(),
        task.parameters().element_count(),
        sizes.join(", ")
    );
    let precision = prepared.manifest.precision;
    let device = match describe_device(task.parameters().device()) {
        Some(device) => Some(format!("  on {device}, in {precision}")),
        None if precision == Precision::F32 => None,
        None => Some(format!("  on the CPU, in {precision}")),
    };
    let resumed = resume.map(|resume| {
        let progress = &resume.checkpoint.header.progress;
        format!(
            "  resumes from {}: {} epochs, {} iterations, {} updates done",
            resume.path.display(),
            progress.epoch,
            progress.iteration,
            progress.update
        )
    });
    let learnt = (task.learnt().iter())
        .map(|(name, value)| {
            format!(
                "  {} from the training data: {}",
                name.replace('_', " "),
                listed(value)
            )
        })
        .collect::<Vec<_>>();
    let weights = (prepared.weights.iter()).map(|set| {
        format!(
            "  weights of {}: {}",
            set.file.display(),
            set.lines().join("; ")
        )
    });
    (std::iter::once(run)
        .chain(device)
        .chain(resumed)
        .chain(weights))
    .chain(learnt)
    .collect()
}

/// The first values of an object, with four digits.
fn listed(value: &Value) -> String {
    const SHOWN: usize = 12;
    let Some(values) = value.as_object() else {
        return value.to_string();
    };
    let shown = values.iter().take(SHOWN);
    let mut shown: Vec<String> = shown
        .map(|(name, value)| match value.as_f64() {
            Some(number) => format!("{name} {number:.4}"),
            None => format!("{name} {value}"),
        })
        .collect();
    if values.len() > SHOWN {
        shown.push(format!("and {} more in `run.json`", values.len() - SHOWN));
    }
    shown.join(", ")
}

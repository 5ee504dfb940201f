//! `sconce predict`: predictions of a trained model.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use sconce_plugin_api::spreadsheet;

use super::eval::{DataPhase, phase_of};
use super::output;
use super::trained::TrainedArgs;
use crate::data::{Dataset, order};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::nn::Pass;
use crate::predict::{Prediction, Sample, known, predictions};
use crate::session::{StartFailure, TaskBuilder};
use crate::task::Task;

/// Arguments of `sconce predict`.
#[derive(Debug, Args)]
pub(super) struct PredictArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// File of samples, or directory of images, in the format of the manifest's data; it needs no
    /// targets. Default: the manifest's test data, or its validation data.
    #[arg(long, value_name = "FILE", conflicts_with = "phase")]
    input: Option<PathBuf>,
    /// Part of the manifest's data to predict.
    #[arg(long, value_enum)]
    phase: Option<DataPhase>,
    /// Output format of the predictions.
    #[arg(long, value_enum, default_value_t = PredictionFormat::Jsonl)]
    format: PredictionFormat,
}

/// Output format of predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PredictionFormat {
    /// One JSON object per line.
    Jsonl,
    /// Table with a header.
    Csv,
}

pub(super) fn predict(
    arguments: &PredictArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let (manifest, mut task) = arguments.trained.task(tasks)?;
    let data = data(arguments, task.as_ref())?;
    let data = data.plain().unwrap_or(data);
    let train = &manifest.train;
    let size = train.eval_batch_size.unwrap_or(train.batch_size).max(1);
    let targets = data.targets().clone();
    let mut index = 0;
    let _precision = manifest.precision.begin();
    for indices in order::natural(data.len()).chunks(size) {
        if !output::is_open() {
            // The reader has closed the pipe, or output has failed.
            break;
        }
        let mut batch = data.gather(indices, 0)?;
        batch.inputs = batch.inputs.to_device(task.parameters().device())?;
        let outputs = task.forward(&batch, &mut Pass::evaluation())?;
        let mut known = if data.has_targets() {
            known(&batch.targets, &targets)?.into_iter()
        } else {
            Vec::new().into_iter()
        };
        for prediction in predictions(&outputs, &targets)? {
            let sample = Sample {
                index,
                origin: u32::try_from(index)
                    .ok()
                    .and_then(|index| data.origin(index)),
                target: known.next(),
            };
            match arguments.format {
                PredictionFormat::Jsonl => output::json_line(&prediction.json(&sample, &targets)),
                PredictionFormat::Csv => {
                    if index == 0 {
                        output::block(&csv_line(&Prediction::header(&sample, &targets)));
                    }
                    for row in prediction.rows(&sample, &targets) {
                        output::block(&csv_line(&row));
                    }
                }
            }
            index += 1;
        }
    }
    Ok(exit::DONE)
}

/// Returns the samples to predict.
fn data(arguments: &PredictArgs, task: &dyn Task) -> Result<Arc<dyn Dataset>, StartFailure> {
    let none = || StartFailure::usage(vec![Diagnostic::new("the task has no data to go by")]);
    let Some(file) = &arguments.input else {
        let phase = phase_of(arguments.phase, task)?;
        return task.data(phase).ok_or_else(none);
    };
    let learnt = task.preprocessing().ok_or_else(none)?;
    let opened = learnt.open(file);
    let opened =
        opened.map_err(|error| StartFailure::usage(vec![Diagnostic::new(error.to_string())]))?;
    let notes = opened.notes.lines().into_iter().map(Diagnostic::warning);
    output::diagnostics(&notes.collect::<Vec<_>>());
    Ok(opened.samples)
}

/// Formats a line of CSV according to RFC 4180; texts that a spreadsheet would run as formulas are
/// escaped.
fn csv_line(cells: &[String]) -> String {
    let quoted = cells.iter().map(|cell| {
        let cell = spreadsheet::escaped(cell);
        if cell.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.into_owned()
        }
    });
    quoted.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = ["a", "b,c", "say \"d\""].map(str::to_owned);
        assert_eq!(super::csv_line(&cells), "a,\"b,c\",\"say \"\"d\"\"\"");
        let cells = ["=cmd|' /C calc'!A0", "-0.5", "@a,b"].map(str::to_owned);
        assert_eq!(
            super::csv_line(&cells),
            "'=cmd|' /C calc'!A0,-0.5,\"'@a,b\""
        );
    }
}

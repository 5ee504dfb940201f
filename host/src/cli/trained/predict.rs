//! `sconce predict`: predictions of a trained model.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::{Args, ValueEnum};
use sconce_base::regular_file::open_regular;

use crate::cli::show::output;
use crate::cli::trained::TrainedArgs;
use crate::cli::trained::eval::{DataPhase, phase_of};
use crate::cli::trained::predict_rows::{RowOptions, predict_rows};
use crate::cli::trained::prediction_format::{PredictionFormat, print_prediction};
use crate::data::{Batch, Dataset, Preprocessing, Transform, order};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::model_directory::TrainedModel;
use crate::nn::Pass;
use crate::predict::{Sample, known, predictions};
use crate::session::{StartFailure, TaskBuilder};
use crate::task::Task;

/// Arguments of `sconce predict`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PredictArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// File of samples, or directory of images, in the format of the manifest's data; it needs no
    /// targets. `-` reads a table from standard input, row by row: CSV, or a JSON object per line. Default: the manifest's
    /// test data, or its validation data.
    #[arg(long, value_name = "FILE", conflicts_with = "phase")]
    input: Option<PathBuf>,
    /// Refuses columns that the training didn't have, and numbers far from those of the training, which are warned of
    /// otherwise.
    #[arg(long, requires = "input")]
    strict: bool,
    /// What to do about a row of a table that can't be used.
    #[arg(long, value_enum, requires = "input", default_value_t = OnInvalid::Error)]
    on_invalid: OnInvalid,
    /// Part of the manifest's data to predict.
    #[arg(long, value_enum)]
    phase: Option<DataPhase>,
    /// Output format of the predictions.
    #[arg(long, value_enum, default_value_t = PredictionFormat::Jsonl)]
    format: PredictionFormat,
}

/// What to do about a row that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnInvalid {
    /// End with an error.
    Error,
    /// Write what is wrong in the row's place, and go on; exit code 1 at the end.
    Skip,
}

pub(in crate::cli) fn predict(
    arguments: &PredictArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    if let Some(file) = &arguments.input
        && let Some(model) = arguments.trained.model(tasks)?
    {
        let is_stream = file.as_os_str() == "-";
        if is_stream || arguments.on_invalid == OnInvalid::Skip {
            return rows(arguments, &model, file, is_stream);
        }
        let data = opened(model.preprocessing(), file, arguments.strict)?;
        let device = model.device().clone();
        let _precision = model.precision().begin(model.device());
        let forward = |batch: &Batch| model.forward_batch(batch);
        return print_all(
            arguments.format,
            &data,
            model.batch_size(),
            &device,
            forward,
        );
    }
    if arguments.input.as_deref() == Some(Path::new("-")) || arguments.on_invalid == OnInvalid::Skip
    {
        let problem =
            "rows can be read one after the other only for a model that is complete in itself";
        let hint = "give the directory of a run that has ended, or of a checkpoint, in the manifest's place";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    }
    let (manifest, mut task) = arguments.trained.task(tasks)?;
    let data = data(arguments, task.as_ref())?;
    let train = &manifest.train;
    let size = train.eval_batch_size.unwrap_or(train.batch_size).max(1);
    let device = task.parameters().device().clone();
    let _precision = manifest.precision.begin(&device);
    let forward = |batch: &Batch| task.forward(batch, &mut Pass::evaluation());
    print_all(arguments.format, &data, size, &device, forward)
}

/// Predicts the rows of a file, or of standard input, one after the other.
fn rows(
    arguments: &PredictArgs,
    model: &TrainedModel,
    file: &Path,
    is_stream: bool,
) -> Result<u8, StartFailure> {
    let Transform::Csv(table) = &model.preprocessing().transform else {
        let problem = "only rows of a table can be read one after the other, and this model is for other data";
        let hint = "give a file or a directory by `--input`, without `--on-invalid`";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    };
    let reader: Box<dyn BufRead + Send> = if is_stream {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(open_regular(file).map_err(|error| {
            let problem = format!("can't read `{}`: {error}", file.display());
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })?))
    };
    let rows = table.rows(reader);
    let rows = if arguments.strict {
        rows.strict()
    } else {
        rows
    };
    let options = RowOptions {
        format: arguments.format,
        skips_invalid: arguments.on_invalid == OnInvalid::Skip,
    };
    predict_rows(model, rows, options)
}

/// Prints predictions for all samples, in batches of `size`, by the outputs that `forward` returns.
fn print_all(
    format: PredictionFormat,
    data: &Arc<dyn Dataset>,
    size: usize,
    device: &Device,
    mut forward: impl FnMut(&Batch) -> candle_core::Result<Tensor>,
) -> Result<u8, StartFailure> {
    let data = data.plain().unwrap_or_else(|| Arc::clone(data));
    let targets = data.targets().clone();
    let mut index = 0;
    for indices in order::natural(data.len()).chunks(size) {
        if !output::is_open() {
            // The reader has closed the pipe, or output has failed.
            break;
        }
        let mut batch = data.gather(indices, 0)?;
        batch.inputs = batch.inputs.to_device(device)?;
        let outputs = forward(&batch)?;
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
            print_prediction(format, &prediction, &sample, &targets, index == 0);
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
    opened(&learnt, file, arguments.strict)
}

/// Opens a file of samples as the training data were. What is unusual is warned of, or, if `is_strict`, refused.
fn opened(
    learnt: &Preprocessing,
    file: &Path,
    is_strict: bool,
) -> Result<Arc<dyn Dataset>, StartFailure> {
    let opened = learnt.open(file);
    let opened =
        opened.map_err(|error| StartFailure::usage(vec![Diagnostic::new(error.to_string())]))?;
    let notes = opened.notes.lines().into_iter();
    if is_strict && !opened.notes.is_empty() {
        return Err(StartFailure::usage(notes.map(Diagnostic::new).collect()));
    }
    output::diagnostics(&notes.map(Diagnostic::warning).collect::<Vec<_>>());
    Ok(opened.samples)
}

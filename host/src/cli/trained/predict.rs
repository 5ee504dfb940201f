//! `sconce predict`: predictions of a trained model.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use sconce_base::regular_file::open_regular;

use crate::cli::show::output;
use crate::cli::trained::TrainedArgs;
use crate::cli::trained::eval::{DataPhase, phase_of, unfit_views};
use crate::cli::trained::model_run::{ModelRun, without_augmentation};
use crate::cli::trained::npy::write_npy;
use crate::cli::trained::predict_rows::{RowOptions, predict_rows};
use crate::cli::trained::prediction_format::{PredictionFormat, print_prediction};
use crate::data::{Batch, Dataset, Preprocessing, Transform};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::model_directory::TrainedModel;
use crate::nn::Pass;
use crate::predict::{Sample, known, predictions, vectors};
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
    /// Test-time augmentation: predicts several views of each image and takes the mean of the probabilities. VIEWS is a list as
    /// that of `data.views` in the manifest, in JSON: `[{}, {"flip": "horizontal", "flip_probability": 1}]`.
    #[arg(long, value_name = "VIEWS")]
    tta: Option<String>,
    /// Writes the outputs of this module of the model in place of predictions: features. Its name is that of its parameters, as `sconce
    /// summary` lists it.
    #[arg(long, value_name = "NAME", conflicts_with = "tta")]
    module: Option<String>,
    /// Output format of the predictions, or of a module's outputs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Jsonl)]
    format: OutputFormat,
    /// File for `--format npy`, where an existing one is replaced.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Form of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// One JSON object per line.
    Jsonl,
    /// Table with a header.
    Csv,
    /// NumPy array of the model's outputs, or of a module's, in a file of its own.
    Npy,
}

impl OutputFormat {
    /// That of the lines that are printed, if any are.
    fn lines(self) -> Option<PredictionFormat> {
        match self {
            OutputFormat::Jsonl => Some(PredictionFormat::Jsonl),
            OutputFormat::Csv => Some(PredictionFormat::Csv),
            OutputFormat::Npy => None,
        }
    }
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
        let mut forward = |batch: &Batch, pass: &mut Pass<'_>| model.forward_batch_in(batch, pass);
        let run = ModelRun {
            data: without_augmentation(data),
            modules: model.network().modules(),
            size: model.batch_size().max(1),
            device,
            forward: &mut forward,
        };
        return write(arguments, run);
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
    let modules = task.modules();
    let mut forward = |batch: &Batch, pass: &mut Pass<'_>| task.forward(batch, pass);
    let run = ModelRun {
        data: without_augmentation(data),
        modules,
        size,
        device,
        forward: &mut forward,
    };
    write(arguments, run)
}

/// Predicts the rows of a file, or of standard input, one after the other.
fn rows(
    arguments: &PredictArgs,
    model: &TrainedModel,
    file: &Path,
    is_stream: bool,
) -> Result<u8, StartFailure> {
    let has_more = arguments.module.is_some() || arguments.tta.is_some();
    let Some(format) = arguments.format.lines().filter(|_| !has_more) else {
        let problem = "rows that are read one after the other have nothing but predictions";
        let hint = "for `--module`, `--tta` and `--format npy` give a file by `--input`, without `--on-invalid`";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    };
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
        format,
        skips_invalid: arguments.on_invalid == OnInvalid::Skip,
    };
    predict_rows(model, rows, options)
}

/// Writes what is asked for all samples.
fn write(arguments: &PredictArgs, mut run: ModelRun<'_>) -> Result<u8, StartFailure> {
    if let Some(views) = &arguments.tta {
        let in_views = run.data.in_views(views);
        run.data = in_views.map_err(|error| unfit_views(&error))?;
    }
    let module = arguments.module.as_deref();
    match (arguments.format.lines(), &arguments.output) {
        (Some(format), _) => print_all(run, module, format)?,
        (None, Some(file)) => write_npy(file, run.data.len(), |write| {
            run.outputs(module, |_, outputs| {
                write(outputs)?;
                Ok(true)
            })
        })?,
        (None, None) => {
            let problem = "an array can't be printed";
            let hint = "give the file to write by `--output FILE.npy`";
            return Err(StartFailure::usage(vec![
                Diagnostic::new(problem).hint(hint),
            ]));
        }
    }
    Ok(exit::DONE)
}

/// Prints predictions, or the outputs of a module, for all samples.
fn print_all(
    run: ModelRun<'_>,
    module: Option<&str>,
    format: PredictionFormat,
) -> Result<(), StartFailure> {
    let (data, targets) = (Arc::clone(&run.data), run.data.targets().clone());
    let mut index = 0;
    run.outputs(module, |batch, outputs| {
        let mut known = if data.has_targets() {
            known(&batch.targets, &targets)?.into_iter()
        } else {
            Vec::new().into_iter()
        };
        let found = match module {
            Some(_) => vectors(outputs)?,
            None => predictions(outputs, &targets)?,
        };
        for prediction in found {
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
        // Otherwise the reader has closed the pipe, or output has failed.
        Ok(output::is_open())
    })
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

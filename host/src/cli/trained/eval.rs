//! `sconce eval`: loss and metrics of a trained model.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sconce_plugin_api::Phase;
use serde_json::{Map, Value, json};

use crate::allocator;
use crate::bridge::BridgeState;
use crate::cli::prepare;
use crate::cli::run::out_of_memory::OutOfMemory;
use crate::cli::show::{number, output};
use crate::cli::trained::TrainedArgs;
use crate::data::csv::RowsOf;
use crate::data::{DataError, DataFile, TrainingData};
use crate::diagnostic::Diagnostic;
use crate::dispatch::Dispatcher;
use crate::exit;
use crate::log::{Level, Log, MessageFormat, StderrLog};
use crate::printable;
use crate::run::{RunOutcome, RunReport, Trainer, TrainingPlan};
use crate::session::{StartFailure, TaskBuilder};
use crate::task::{OtherData, Task};

/// Arguments of `sconce eval`.
#[derive(Debug, Args)]
pub(in crate::cli) struct EvalArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// File of samples with their targets, or directory of images in one for each class, which the model reads as it has learnt to: the training data and the manifest
    /// aren't needed. Default: the manifest's data.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// With `--input` for images in an IDX file, the file of their labels; for arrays, the NumPy file of their targets, or
    /// the name of their tensor in the same safetensors file. Other samples have theirs with them.
    #[arg(long, value_name = "FILE", requires = "input")]
    targets: Option<String>,
    /// Data to evaluate on. Default: the test data, or the validation data if there is none. With `--input`, those rows of
    /// the table, wherever they are in it, or the `new` ones, which are in no part; default: all.
    #[arg(long, value_enum)]
    phase: Option<EvalPhase>,
    /// Test-time augmentation: predicts several views of each image and takes the mean of the probabilities. VIEWS is a list as
    /// that of `data.views` in the manifest, in JSON: `[{}, {"flip": "horizontal", "flip_probability": 1}]`.
    #[arg(long, value_name = "VIEWS")]
    tta: Option<String>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// Part of the manifest's data.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum DataPhase {
    /// Training data.
    Train,
    /// Validation data.
    Val,
    /// Test data.
    Test,
}

impl DataPhase {
    fn phase(self) -> Phase {
        match self {
            DataPhase::Train => Phase::Train,
            DataPhase::Val => Phase::Val,
            DataPhase::Test => Phase::Test,
        }
    }
}

/// Part of the data to evaluate on.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EvalPhase {
    /// Training data.
    Train,
    /// Validation data.
    Val,
    /// Test data.
    Test,
    /// Rows that the training's table didn't have.
    New,
}

impl EvalPhase {
    fn rows(self) -> RowsOf {
        match self {
            EvalPhase::Train => RowsOf::Train,
            EvalPhase::Val => RowsOf::Val,
            EvalPhase::Test => RowsOf::Test,
            EvalPhase::New => RowsOf::New,
        }
    }

    /// Returns the part of the manifest's data.
    fn of_manifest(self) -> Result<DataPhase, StartFailure> {
        match self {
            EvalPhase::Train => Ok(DataPhase::Train),
            EvalPhase::Val => Ok(DataPhase::Val),
            EvalPhase::Test => Ok(DataPhase::Test),
            EvalPhase::New => Err(usage(
                "`--phase new` is for rows of a table that the training didn't have",
                "name the table by `--input FILE`",
            )),
        }
    }
}

/// Returns the requested phase; by default the first of test and validation that has data.
pub(super) fn phase_of(wanted: Option<DataPhase>, task: &dyn Task) -> Result<Phase, StartFailure> {
    let wanted = wanted.map(DataPhase::phase);
    let candidates = match wanted {
        Some(phase) => vec![phase],
        None => vec![Phase::Test, Phase::Val],
    };
    let found = candidates.iter().find(|&&phase| task.data(phase).is_some());
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = candidates.iter().map(|phase| phase.name()).collect();
        let problem = format!("the task has no data for {}", names.join(" or "));
        let hint = "give the manifest's data a part for it, or choose another with `--phase`";
        StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
    })
}

pub(in crate::cli) fn eval(
    arguments: &EvalArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let part = arguments.phase.map(EvalPhase::rows);
    if let Some(file) = &arguments.input {
        return eval_file(arguments, file, part, tasks);
    }
    if let Some((file, part)) = arguments.trained.grown_table(part, tasks)? {
        let text = format!(
            "`{}` is not as it was in the training: of its rows, those of `{}` are evaluated, as the model has learnt to read \
             them",
            file.display(),
            part_name(part)
        );
        log(Level::Info).log(Level::Info, "sconce", &text);
        return eval_file(arguments, &file, Some(part), tasks);
    }
    let wanted = arguments.phase.map(EvalPhase::of_manifest).transpose()?;
    let (manifest, task) = arguments.trained.task(tasks)?;
    let phase = phase_of(wanted, task.as_ref())?;
    let mut task = in_views(task, phase, arguments.tta.as_deref())?;
    let train = &manifest.train;
    let plan = TrainingPlan {
        seed: manifest.seed,
        eval_batch_size: train.eval_batch_size.unwrap_or(train.batch_size),
        preparation: train.preparation(),
        precision: manifest.precision,
        ..TrainingPlan::default()
    };
    let report = measure(task.as_mut(), plan, phase);
    if let RunOutcome::Failed(error) = &report.outcome {
        let problem = Diagnostic::new(error.to_string());
        let facts = OutOfMemory::of(error, &manifest, task.as_ref(), tasks);
        output::diagnostics(&[match facts {
            Some(facts) => facts.explain(problem),
            None => problem,
        }]);
        return Ok(exit::TRAINING);
    }
    print(&report, phase.name(), arguments.json);
    Ok(exit::DONE)
}

/// Evaluates the model on a file of its own.
fn eval_file(
    arguments: &EvalArgs,
    file: &Path,
    part: Option<RowsOf>,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let Some(model) = arguments.trained.model(tasks)? else {
        return Err(usage(
            "`--input` is for a model that is complete in itself",
            "give the directory of a run that has ended, or of a checkpoint, in the manifest's place, and no `--set PATH=VALUE`",
        ));
    };
    let failed = |error: &dyn std::fmt::Display| {
        StartFailure::usage(vec![Diagnostic::new(error.to_string())])
    };
    let rows = match part {
        None => None,
        Some(_) => Some(
            model
                .rows()
                .map_err(|error| failed(&error))?
                .ok_or_else(no_rows)?,
        ),
    };
    let wanted = rows.as_ref().zip(part);
    let labelled = model
        .preprocessing()
        .open_labelled(file, arguments.targets.as_deref(), wanted);
    let labelled = labelled.map_err(|error| failed(&error))?;
    log_origin(&labelled.files, &model.preprocessing().source);
    let (counts, opened) = (labelled.rows, labelled.opened);
    let name = part.map_or("input", part_name);
    if counts.absent > 0 && !arguments.trained.allows_changes() {
        let problem = format!(
            "`{}` lacks {} of the {} rows of `{name}`: they were removed, or something in them has changed",
            file.display(),
            counts.absent,
            counts.absent + opened.samples.len(),
        );
        return Err(usage(
            &problem,
            "`--allow-changes` evaluates those that are there",
        ));
    }
    let notes = opened.notes.lines().into_iter().chain(counts.lines());
    output::diagnostics(&notes.map(Diagnostic::warning).collect::<Vec<_>>());
    if counts.new > 0 && name != "new" {
        let text = format!(
            "rows that are in no part: {}; `--phase new` evaluates them",
            counts.new
        );
        log(Level::Info).log(Level::Info, "sconce", &text);
    }
    let plan = TrainingPlan {
        eval_batch_size: model.batch_size(),
        precision: model.precision(),
        ..TrainingPlan::default()
    };
    let task = model
        .into_task(opened.samples)
        .map_err(|error| failed(&error))?;
    let mut task = in_views(Box::new(task), Phase::Test, arguments.tta.as_deref())?;
    let report = measure(task.as_mut(), plan, Phase::Test);
    if let RunOutcome::Failed(error) = &report.outcome {
        output::diagnostics(&[Diagnostic::new(error.to_string())]);
        return Ok(exit::TRAINING);
    }
    print(&report, name, arguments.json);
    Ok(exit::DONE)
}

/// Evaluates the task on views of its data for a phase, if some are wanted.
fn in_views(
    task: Box<dyn Task>,
    phase: Phase,
    views: Option<&str>,
) -> Result<Box<dyn Task>, StartFailure> {
    let Some(views) = views else {
        return Ok(task);
    };
    let in_views = OtherData::in_views(task, phase, views);
    let in_views = in_views.map_err(|error| unfit_views(&error))?;
    Ok(Box::new(in_views))
}

/// Views that the samples don't have.
pub(super) fn unfit_views(error: &DataError) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(format!("`--tta`: {error}"))])
}

/// Says of each file that is evaluated whether the training has read it.
fn log_origin(files: &[DataFile], training: &TrainingData) {
    if training.files.is_empty() {
        return;
    }
    for file in files {
        let text = match training.same_file(file) {
            Some(known) => format!(
                "`{}` is `{}` of the training, unchanged ({})",
                file.name,
                printable::one_line(&known.name),
                file.hash.short()
            ),
            None => format!("`{}` is not a file that the training read", file.name),
        };
        log(Level::Info).log(Level::Info, "sconce", &text);
    }
}

fn part_name(part: RowsOf) -> &'static str {
    match part {
        RowsOf::Train => "train",
        RowsOf::Val => "val",
        RowsOf::Test => "test",
        RowsOf::New => "new",
    }
}

fn measure(task: &mut dyn Task, plan: TrainingPlan, phase: Phase) -> RunReport {
    allocator::keep_memory_for_steps();
    let log = log(Level::Warn);
    let shared = BridgeState::new(&log);
    let mut optimizer = prepare::idle();
    let hooks = Dispatcher::new(Vec::new());
    Trainer::new(task, &mut optimizer, hooks, &shared, plan).evaluate_only(phase)
}

fn log(level: Level) -> StderrLog {
    StderrLog {
        level,
        form: MessageFormat::Text,
    }
}

/// Prints the metrics of the phase that was measured.
fn print(report: &RunReport, phase: &str, is_json: bool) {
    for (_, metrics) in &report.metrics.metrics {
        if is_json {
            let metrics: Map<String, Value> = metrics
                .iter()
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect();
            output::json_line(&json!({"phase": phase, "metrics": metrics}));
        } else {
            for (name, value) in metrics {
                output::line(&format!("{phase}/{name} {}", number::exact(*value)));
            }
        }
    }
}

fn no_rows() -> StartFailure {
    usage(
        "the model doesn't know which rows were in which part of its training's data",
        "runs on tables of at most 1,048,576 rows keep that in their `model` and, as `.rows-….safetensors`, beside their checkpoints; \
         without `--phase` all rows of the file are evaluated",
    )
}

fn usage(problem: &str, hint: &str) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}

//! `sconce eval`: loss and metrics of a trained model.

use clap::{Args, ValueEnum};
use sconce_plugin_api::Phase;
use serde_json::{Map, Value, json};

use super::out_of_memory::OutOfMemory;
use super::trained::TrainedArgs;
use super::{number, output, prepare};
use crate::bridge::BridgeState;
use crate::diagnostic::Diagnostic;
use crate::dispatch::Dispatcher;
use crate::exit;
use crate::log::{Level, MessageFormat, StderrLog};
use crate::run::{RunOutcome, Trainer, TrainingPlan};
use crate::session::{StartFailure, TaskBuilder};

/// Arguments of `sconce eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// Data to evaluate on. Default: the test data, or the validation data if there is none.
    #[arg(long, value_enum)]
    phase: Option<DataPhase>,
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

/// Returns the requested phase; by default the first of test and validation that has data.
pub(super) fn phase_of(
    wanted: Option<DataPhase>,
    task: &dyn crate::task::Task,
) -> Result<Phase, StartFailure> {
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

pub(super) fn eval(arguments: &EvalArgs, tasks: &dyn TaskBuilder) -> Result<u8, StartFailure> {
    let (manifest, mut task) = arguments.trained.task(tasks)?;
    let phase = phase_of(arguments.phase, task.as_ref())?;
    let train = &manifest.train;
    let plan = TrainingPlan {
        seed: manifest.seed,
        eval_batch_size: train.eval_batch_size.unwrap_or(train.batch_size),
        preparation: train.preparation(),
        precision: manifest.precision,
        ..TrainingPlan::default()
    };
    let log = StderrLog {
        level: Level::Warn,
        form: MessageFormat::Text,
    };
    let shared = BridgeState::new(&log);
    let mut optimizer = prepare::idle();
    let hooks = Dispatcher::new(Vec::new());
    let trainer = Trainer::new(task.as_mut(), &mut optimizer, hooks, &shared, plan);
    let report = trainer.evaluate_only(phase);
    if let RunOutcome::Failed(error) = &report.outcome {
        let problem = Diagnostic::new(error.to_string());
        let facts = OutOfMemory::of(error, &manifest, task.as_ref(), tasks);
        output::diagnostics(&[match facts {
            Some(facts) => facts.explain(problem),
            None => problem,
        }]);
        return Ok(exit::TRAINING);
    }
    for (phase, metrics) in &report.metrics.metrics {
        if arguments.json {
            let metrics: Map<String, Value> = metrics
                .iter()
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect();
            output::json_line(&json!({"phase": phase.name(), "metrics": metrics}));
        } else {
            for (name, value) in metrics {
                output::line(&format!(
                    "{}/{name} {}",
                    phase.name(),
                    number::exact(*value)
                ));
            }
        }
    }
    Ok(exit::DONE)
}

//! The files written after training.

use std::time::Instant;

use sconce_base::held_directory::HeldDirectory;

use super::Origin;
use crate::checkpoint::Store;
use crate::diagnostic::Diagnostic;
use crate::manifest::TaskSource;
use crate::model_directory::{self, ModelFacts};
use crate::run::{self, RunOutcome, RunReport};
use crate::session::Prepared;
use crate::weights;
use sconce_trainer::adapters;

/// Writes the run's weights and its model, if it finished, and its record; returns the problems of that.
pub(crate) fn write_results(
    store: &Store,
    report: &mut RunReport,
    prepared: &Prepared,
    origin: &Origin<'_>,
) -> Vec<Diagnostic> {
    let run = store.run_directory();
    let gone = |reason: String| {
        let problem = format!("the run's results can't be written: {reason}");
        vec![Diagnostic::new(problem)]
    };
    if let Some(reason) = store.lost() {
        return gone(reason);
    }
    let mut problems = Vec::new();
    let parameters = prepared.task.parameters();
    if matches!(
        report.outcome,
        RunOutcome::Completed | RunOutcome::Stopped { .. }
    ) {
        let measured = report.measured.as_ref();
        let save = || match &prepared.manifest.adapt {
            None => Ok(weights::save_results(run, parameters, measured)?),
            Some(config) => {
                let base = prepared.manifest.weights.as_ref();
                let base = base.map(|weights| weights.file.as_path());
                adapters::save_results(run, parameters, measured, (config, base))
            }
        };
        if let Err(error) = report.times.write_weights(save) {
            problems.push(format!("the trained weights can't be written: {error}"));
        } else if let Err(error) = write_model(run, report, prepared, origin) {
            problems.push(format!("the trained model can't be written: {error}"));
        }
    }
    if !problems.is_empty()
        && let Some(reason) = store.vanished()
    {
        return gone(reason);
    }
    let mut problems: Vec<Diagnostic> = problems.into_iter().map(Diagnostic::new).collect();
    problems.extend(write_record(store, report, prepared, origin));
    problems
}

/// Writes the run's record, which says where the time went; returns why it could not be written.
pub(crate) fn write_record(
    store: &Store,
    report: &RunReport,
    prepared: &Prepared,
    origin: &Origin<'_>,
) -> Vec<Diagnostic> {
    let device = prepared.task.parameters().device();
    let files = &prepared.files;
    let written = run::write_results(store.run_directory(), report, device, files, origin.team);
    let Err(error) = written else {
        return Vec::new();
    };
    let problem = match store.vanished() {
        Some(reason) => format!("the run's results can't be written: {reason}"),
        None => format!("the run's record can't be written: {error}"),
    };
    vec![Diagnostic::new(problem)]
}

/// Writes what predictions need, if the manifest describes the model and its data.
fn write_model(
    directory: &HeldDirectory,
    report: &mut RunReport,
    prepared: &Prepared,
    origin: &Origin<'_>,
) -> std::io::Result<()> {
    let facts = match origin.task {
        TaskSource::Manifest => ModelFacts::of(&prepared.manifest, &report.learnt),
        TaskSource::Program => None,
    };
    let (Some(facts), Some(preprocessing)) = (facts, prepared.task.preprocessing()) else {
        return Ok(());
    };
    let trained = model_directory::Trained {
        name: &prepared.manifest.name,
        facts,
        preprocessing: &preprocessing,
        report,
        manifest: &origin.manifest,
        data: &prepared.files,
        hooks: &origin.hooks,
        ranks: origin.team.map_or(1, |team| team.size() as u64),
    };
    let begin = Instant::now();
    let written = model_directory::write(directory, &trained);
    report.times.end.weights += begin.elapsed().as_secs_f64();
    written
}

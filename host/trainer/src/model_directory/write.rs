//! Writing of the directory that a run leaves.

use std::io;
use std::path::Path;

use sconce_base::regular_file::read_regular;
use serde_json::{Value, json};

use super::description::{Description, Signature};
use super::facts::ModelFacts;
use super::{DESCRIPTION, MODEL, readme};
use crate::checkpoint::{HookRecord, TRAINED};
use crate::data::csv::ROWS;
use crate::data::{DataFile, Preprocessing};
use crate::kernels;
use crate::listed_file::ListedFile;
use crate::run::RunReport;
use crate::version::HOST_VERSION;
use crate::weights::RESULTS;
use sconce_base::held_directory::{HeldDirectory, aside};

/// Names of the files that say how good the model is, and what it came from.
const METRICS: &str = "metrics.json";
const PROVENANCE: &str = "provenance.json";
const README: &str = "README.md";

/// A training that has ended, with the weights that it keeps in its directory.
pub struct Trained<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Architecture and computation.
    pub facts: ModelFacts,
    /// What was learnt from the training data.
    pub preprocessing: &'a Preprocessing,
    /// How it ended.
    pub report: &'a RunReport,
    /// The manifest with all defaults filled in.
    pub manifest: &'a Value,
    /// Files of the data.
    pub data: &'a [DataFile],
    /// The hooks, with their plugins.
    pub hooks: &'a [HookRecord],
    /// Number of ranks.
    pub ranks: u64,
}

/// Writes the model of a run into its directory, in the place of an earlier one at once.
///
/// # Errors
///
/// If something can't be written; an earlier model is then unchanged.
pub fn write(run: &HeldDirectory, trained: &Trained<'_>) -> io::Result<()> {
    let place = run.path().join(MODEL);
    let beside = aside(&place, "new");
    // A killed process with the same process ID may have left one.
    drop(run.remove(&beside));
    let written = fill(&beside, run, trained).and_then(|()| run.put(&beside, &place));
    match written {
        Ok(Some(earlier)) => run.remove(&earlier),
        Ok(None) => Ok(()),
        Err(error) => {
            // The partial directory is useless, and so is the reason why it can't be removed.
            drop(run.remove(&beside));
            Err(error)
        }
    }
}

fn fill(beside: &Path, run: &HeldDirectory, trained: &Trained<'_>) -> io::Result<()> {
    run.create_directory(beside)?;
    let results = run.path().join(RESULTS);
    // Both are replaced as whole files, never changed, so they can share their content.
    let own = beside.join(RESULTS);
    run.link_or_copy(&results, &own)?;
    let mut files = vec![ListedFile::of(RESULTS, &read_regular(&own)?)];
    let json = |value: &Value| format!("{value:#}\n").into_bytes();
    let metrics = Value::Object(trained.report.metrics.to_json());
    let page = readme::page(trained.name, trained.preprocessing, &trained.report.metrics);
    let mut contents = trained.preprocessing.to_files();
    if let Some(rows) = trained.preprocessing.split_rows() {
        contents.push((ROWS, rows.to_bytes()));
    }
    contents.extend([
        (METRICS, json(&metrics)),
        (PROVENANCE, json(&provenance(trained))),
        (README, page.into_bytes()),
    ]);
    for (name, bytes) in &contents {
        run.write_synced(&beside.join(name), bytes)?;
        files.push(ListedFile::of(name, bytes));
    }
    let measured = trained.report.measured.as_ref();
    let set = measured.map_or(TRAINED, |weights| &weights.set);
    let signature = Signature::of(trained.preprocessing);
    let description = Description::new(trained.facts.clone(), signature, set.to_owned(), files);
    let mut text = serde_json::to_vec_pretty(&description)?;
    text.push(b'\n');
    run.write_synced(&beside.join(DESCRIPTION), &text)?;
    run.sync(beside)
}

/// What the model came from.
fn provenance(trained: &Trained<'_>) -> Value {
    let hooks = trained.hooks.iter().map(|hook| {
        json!({
            "name": hook.name, "kind": hook.kind, "plugin": hook.plugin, "version": hook.version, "sha256": hook.sha256,
        })
    });
    json!({
        "host": HOST_VERSION,
        "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "instructions": format!("{:?}", kernels::level()).to_lowercase(),
        "run": trained.name,
        "manifest": trained.manifest,
        "hooks": hooks.collect::<Vec<_>>(),
        "data": trained.data,
        "ranks": trained.ranks,
        "epochs": trained.report.epochs,
        "iterations": trained.report.iterations,
        "updates": trained.report.updates,
        "seconds": trained.report.seconds,
    })
}

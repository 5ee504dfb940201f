//! The files written before training.

use sconce_base::held_directory::HeldDirectory;
use serde_json::Value;

use super::source;
use crate::data::{self, DataFile};
use crate::diagnostic::Diagnostic;
use crate::session::{DATA_LISTING, Prepared, StartFailure};

/// Saves what the run is made of: its manifest, the list of the files of its data, and where relative paths start.
///
/// # Errors
///
/// If one of the files can't be written.
pub(crate) fn begin(
    run: &HeldDirectory,
    manifest: &Value,
    prepared: &Prepared,
) -> Result<(), StartFailure> {
    save_manifest(run, manifest)?;
    save_data_listing(run, &prepared.files)?;
    source::save(run, &prepared.manifest.base)
}

fn save_manifest(run: &HeldDirectory, manifest: &Value) -> Result<(), StartFailure> {
    let text = format!("{manifest:#}\n");
    let file = run.path().join("manifest.json");
    run.write_atomically(&file, text.as_bytes())
        .map_err(|error| {
            let problem = format!("the run's manifest can't be saved: {error}");
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })
}

/// Lists the files that the data were read from.
fn save_data_listing(run: &HeldDirectory, files: &[DataFile]) -> Result<(), StartFailure> {
    let text = data::listing(files);
    let file = run.path().join(DATA_LISTING);
    run.write_atomically(&file, text.as_bytes())
        .map_err(|error| {
            let problem = format!("the list of the run's data can't be saved: {error}");
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })
}

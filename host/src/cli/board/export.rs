//! The page in one file, with its data within it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::collection::Collection;
use super::curves::{MOST, curves};
use super::details::details;
use super::page;
use super::summary::summary;
use super::walls::random_word;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use sconce_base::files::write_atomically;

/// Number of points of all curves together, about 10 MB of text.
const POINTS: usize = 500_000;
/// Curves of many runs have no fewer than this.
const FEWEST: usize = 30;

/// Writes the page.
pub(super) fn export(collection: &Collection, file: &Path) -> Result<u8, StartFailure> {
    let problem = |error: &dyn std::fmt::Display| {
        let problem = format!("can't write the page `{}`: {error}", file.display());
        StartFailure::results(vec![Diagnostic::new(problem)])
    };
    let nonce = random_word().map_err(|error| problem(&error))?;
    let data = serde_json::to_string(&data(collection)).map_err(|error| problem(&error))?;
    let page = page::page(&nonce, Some(&data));
    write_atomically(file, page.as_bytes()).map_err(|error| problem(&error))?;
    let runs = collection.len();
    let what = if runs == 1 { "run" } else { "runs" };
    output::line(&format!("{runs} {what} in {}", file.display()));
    Ok(exit::DONE)
}

/// The table, and the curves and details of each run, by its path.
fn data(collection: &Collection) -> Value {
    let curves_of_all = collection.runs().values().map(|run| run.metrics.len());
    let most = (POINTS / curves_of_all.sum::<usize>().max(1)).clamp(FEWEST, MOST);
    let mut all_curves = Map::new();
    let mut all_details = Map::new();
    for path in collection.runs().keys() {
        if let Some(run) = collection.read(path) {
            all_curves.insert(path.clone(), curves(&run, most));
        }
        if let Some(mut details) = details(collection, path) {
            // Files stay where they are.
            details["files"] = json!([]);
            all_details.insert(path.clone(), details);
        }
    }
    json!({"runs": summary(collection), "curves": all_curves, "details": all_details})
}

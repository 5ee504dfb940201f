//! The page in one file, with its data within it.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::collection::Collection;
use super::curves::{MOST, curves};
use super::details::{Kind, details};
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

/// Largest picture or page of a run in bytes that is part of the page.
const LARGEST_FILE: u64 = 2 << 20;
/// Most bytes of all of them.
const MOST_OF_FILES: u64 = 48 << 20;

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
    let mut room = MOST_OF_FILES;
    for path in collection.runs().keys() {
        if let Some(run) = collection.read(path) {
            all_curves.insert(path.clone(), curves(&run, most));
        }
        if let Some(mut details) = details(collection, path) {
            let files = details["files"].take();
            let files = files.as_array().into_iter().flatten();
            let within = files.filter_map(|file| within(collection, path, file, &mut room));
            details["files"] = within.collect();
            all_details.insert(path.clone(), details);
        }
    }
    json!({"runs": summary(collection), "curves": all_curves, "details": all_details})
}

/// A picture or page of a run with its contents, while there is `room` for it; none of other files, which stay where they are.
fn within(collection: &Collection, run: &str, file: &Value, room: &mut u64) -> Option<Value> {
    let path = file["path"].as_str()?;
    let (kind, media_type) = Kind::of(path)?;
    if kind == Kind::Text {
        return None;
    }
    let most = LARGEST_FILE.min(*room);
    let opened = collection.inside().file(&Path::new(run).join(path)).ok()?;
    let mut bytes = Vec::new();
    opened.take(most + 1).read_to_end(&mut bytes).ok()?;
    *room -= (bytes.len() as u64 <= most).then_some(bytes.len() as u64)?;
    let data = format!(
        "data:{};base64,{}",
        media_type.replace("; ", ";"),
        BASE64.encode(&bytes)
    );
    Some(json!({"path": path, "kind": file["kind"], "data": data}))
}

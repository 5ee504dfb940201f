//! What is shown of one run beside its curves: how it ended, its files, its confusion matrices, its manifest.

use std::path::Path;

use sconce_plugin_api::spreadsheet;
use serde_json::{Value, json};

use super::collection::{Collection, manifest};
use super::inside::Inside;
use crate::cli::past_runs::past_run::PastRun;

/// How many levels of subdirectories of a run are searched for files.
const DEPTH: usize = 2;
/// Largest number of files that are listed.
const MOST_FILES: usize = 500;
/// Directories whose files are not for people.
const LEFT_OUT: [&str; 2] = ["checkpoints", "model"];
/// Largest number of classes of a confusion matrix that is shown as a table.
const MOST_CLASSES: usize = 100;

/// How a page shows a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Picture,
    /// A page of HTML, such as the hook `report` writes.
    Page,
    Text,
}

impl Kind {
    /// The kind of a file and its media type, by the end of its name; none of a file that is not shown, such as weights, or
    /// manifests, which may have secrets.
    pub(super) fn of(name: &str) -> Option<(Kind, &'static str)> {
        let (_, end) = name.rsplit_once('.')?;
        Some(match end {
            "png" => (Kind::Picture, "image/png"),
            "svg" => (Kind::Picture, "image/svg+xml"),
            "jpg" | "jpeg" => (Kind::Picture, "image/jpeg"),
            "gif" => (Kind::Picture, "image/gif"),
            "webp" => (Kind::Picture, "image/webp"),
            "html" => (Kind::Page, "text/html; charset=utf-8"),
            "csv" | "jsonl" | "txt" | "log" => (Kind::Text, "text/plain; charset=utf-8"),
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Picture => "picture",
            Kind::Page => "page",
            Kind::Text => "text",
        }
    }
}

/// The details of a run, or none if there is no such run.
pub(super) fn details(collection: &Collection, path: &str) -> Option<Value> {
    collection.runs().get(path)?;
    let run = collection.read(path)?;
    let inside = collection.inside();
    let mut files = Vec::new();
    list(inside, path, "", DEPTH, &mut files);
    let confusion = files.iter().filter_map(|file| {
        let phase = file.strip_prefix("confusion-")?.strip_suffix(".csv")?;
        confusion(inside, path, file, phase)
    });
    let confusion: Vec<Value> = confusion.collect();
    let shown = files.iter().filter_map(|file| {
        let (kind, _) = Kind::of(file)?;
        Some(json!({"path": file, "kind": kind.word()}))
    });
    Some(json!({
        "facts": facts(&run),
        "files": shown.collect::<Vec<_>>(),
        "confusion": confusion,
        "manifest": manifest(&run),
    }))
}

/// What the run's record says, as names with texts.
fn facts(run: &PastRun) -> Vec<(&'static str, String)> {
    let mut facts = vec![("state", run.state.clone())];
    let mut add = |name, text: Option<String>| facts.extend(text.map(|text| (name, text)));
    let recorded = |key: &str| run.record.get(key).filter(|value| !value.is_null());
    add("reason", recorded("reason").map(in_words));
    add("weights kept", run.kept_in_words());
    add("iterations", recorded("iterations").map(in_words));
    add("updates", recorded("updates").map(in_words));
    add("seconds", recorded("seconds").map(in_words));
    add("loss", run.loss_kind().map(str::to_owned));
    add("trained by", recorded("host").map(in_words));
    facts
}

fn in_words(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Collects the files that a page shows, by their paths in the run's directory.
fn list(inside: &Inside, run: &str, below: &str, depth: usize, files: &mut Vec<String>) {
    let Ok(entries) = inside.entries(&Path::new(run).join(below)) else {
        return;
    };
    for entry in entries {
        let path = match below {
            "" => entry.name.clone(),
            above => format!("{above}/{}", entry.name),
        };
        let is_searched = depth > 0 && !LEFT_OUT.contains(&entry.name.as_str());
        if entry.is_directory && is_searched {
            list(inside, run, &path, depth - 1, files);
        } else if !entry.is_directory && Kind::of(&path).is_some() && files.len() < MOST_FILES {
            files.push(path);
        }
    }
}

/// Reads a confusion matrix that the hook `classification` has written.
fn confusion(inside: &Inside, run: &str, file: &str, phase: &str) -> Option<Value> {
    let file = inside.file(&Path::new(run).join(file)).ok()?;
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().ok()?.clone();
    let classes: Vec<&str> = header.iter().skip(1).map(spreadsheet::unescaped).collect();
    if classes.len() > MOST_CLASSES {
        return None;
    }
    let mut rows = Vec::new();
    for row in reader.records().take(MOST_CLASSES) {
        let cells = row.ok()?;
        let cells = cells.iter().skip(1).map(|cell| cell.parse::<f64>().ok());
        rows.push(cells.collect::<Option<Vec<f64>>>()?);
    }
    let is_square = rows.len() == classes.len();
    is_square.then(|| json!({"phase": phase, "classes": classes, "rows": rows}))
}

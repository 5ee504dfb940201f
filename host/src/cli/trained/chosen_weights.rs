//! Which weights a path means to `eval` and `predict`: a file, a checkpoint, or a run, which has several.

use std::path::{Path, PathBuf};

use crate::checkpoint::{self, BestCheckpoint, Store, TRAINED};
use crate::data::DataFile;
use crate::diagnostic::Diagnostic;
use crate::log::{Level, Log, MessageFormat, StderrLog};
use crate::model_directory::{MODEL, SavedModel};
use crate::session::StartFailure;
use crate::weights;

/// Weights at a path, and why they were chosen if the user did not name them.
pub(super) struct ChosenWeights {
    /// A checkpoint's directory, or a file.
    pub(super) path: PathBuf,
    why: Option<String>,
}

impl ChosenWeights {
    /// Finds the weights at a path: the path itself, or for a run those that it kept; if it hasn't ended, its best
    /// checkpoint, else the last one.
    pub(super) fn at(place: &Path) -> Result<ChosenWeights, StartFailure> {
        let store = Store::of(place);
        let results = place.join(weights::RESULTS);
        let itself = |path: PathBuf| Ok(ChosenWeights { path, why: None });
        if SavedModel::is_in(place) {
            return itself(results);
        }
        let is_run = store.directory().is_dir()
            || results.is_file()
            || place.join("manifest.json").is_file();
        if !place.is_dir() || place.join("index.json").is_file() || !is_run {
            return itself(place.to_owned());
        }
        let chosen = |path: PathBuf, why: String| {
            let why = Some(why);
            Ok(ChosenWeights { path, why })
        };
        let ended = record(place).filter(has_ended);
        if let Some(record) = ended.filter(|_| results.is_file()) {
            let mut why = "what the run kept".to_owned();
            // Weights that a hook has loaded at the end are the best by what it was asked for.
            let was_loaded = record["kept"]["checkpoint"].is_string();
            if !was_loaded && let Some(best) = checkpoint::best(&store) {
                let shown = described(&best);
                why = format!("{why}; `{}` is {shown}", best.path.display());
            }
            return chosen(results, why);
        }
        if let Some(best) = checkpoint::best(&store) {
            let why = described(&best);
            return chosen(best.path, why);
        }
        let last = store.latest().filter(|tag| store.tags().contains(tag));
        let Some(tag) = last else {
            let problem = format!(
                "the run in `{}` has no weights: neither a checkpoint nor `{}`",
                place.display(),
                weights::RESULTS
            );
            let hint = "train it, or name the weights by `--checkpoint`";
            return Err(StartFailure::usage(vec![
                Diagnostic::new(problem).hint(hint),
            ]));
        };
        chosen(
            store.path_of(&tag),
            "the last checkpoint, as the run has not ended and notes no best one".to_owned(),
        )
    }

    /// Logs which weights are taken, if the arguments don't make that clear.
    pub(super) fn log(&self, set: &str) {
        if self.why.is_none() && set == TRAINED {
            return;
        }
        let why = self.why.as_ref();
        let why = why.map(|why| format!(", {why}")).unwrap_or_default();
        let text = format!("weights: `{}`{why}; the set `{set}`", self.path.display());
        let log = StderrLog {
            level: Level::Info,
            form: MessageFormat::Text,
        };
        log.log(Level::Info, "sconce", &text);
    }
}

/// What makes a checkpoint the best.
fn described(best: &BestCheckpoint) -> String {
    let value = best.value.map(|value| format!(" ({value:.4})"));
    format!("the best by `{}`{}", best.metric, value.unwrap_or_default())
}

/// Whether a run finished by its record, so that the weights in its directory are the final ones.
fn has_ended(record: &serde_json::Value) -> bool {
    matches!(record["outcome"].as_str(), Some("completed" | "stopped"))
}

/// The directory with the model that a path's weights are of: its own, that in a run's directory, or the checkpoint's.
pub(super) fn model_directory(path: &Path) -> Option<PathBuf> {
    let run = if path.is_dir() { path } else { path.parent()? };
    let is_checkpoint = path.join("index.json").is_file();
    [path.to_owned(), run.to_owned(), run.join(MODEL)]
        .into_iter()
        .find(|directory| SavedModel::is_in(directory))
        .or_else(|| is_checkpoint.then(|| path.to_owned()))
}

/// Files that weights at a path were trained on: those of the checkpoint, of the model, or of the run.
pub(super) fn trained_on(place: &Path) -> Option<Vec<DataFile>> {
    if SavedModel::is_in(place) {
        let model = SavedModel::open(place).ok()??;
        return Some(model.preprocessing().source.files.clone());
    }
    if place.join("index.json").is_file() {
        return checkpoint::data_of(place);
    }
    let run = if place.is_dir() {
        place
    } else {
        place.parent()?
    };
    if let Some(mut record) = record(run) {
        return serde_json::from_value(record["data"].take()).ok();
    }
    let store = Store::of(run);
    checkpoint::data_of(&store.path_of(&store.latest()?))
}

/// The record of a run's end.
fn record(run: &Path) -> Option<serde_json::Value> {
    let text = fs_err::read(run.join("run.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

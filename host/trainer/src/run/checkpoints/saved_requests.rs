//! Requests of hooks about saved checkpoints: to delete, copy or publish one, or load its parameters.

use candle_core::Tensor;
use sconce_plugin_api::ext::Asked;

use super::rank_files::on_first;
use super::saver::{Saver, known};
use crate::bridge::BridgeState;
use crate::checkpoint::{self, SavedMetrics, Store, Weights};
use crate::digest::fingerprint;
use crate::parameters::Parameters;
use crate::run::RunError;
use crate::run::ranks::state::Ranks;
use crate::run::weights::sets::Sets;

/// Subdirectory of the run directory for published weights.
const PUBLISHED: &str = "published";

/// Number of digits of the hash in a published file's name.
const DIGITS: usize = 8;

type Named = Vec<(String, Tensor)>;

/// The result of a request about saved checkpoints: the same on all ranks. The outer error ends the run.
type Served<T> = Result<Result<T, String>, RunError>;

impl Saver {
    /// Serves a request about saved checkpoints, once none is being written; returns what was requested, in words, and why
    /// it can't be done, if it can't.
    pub(in crate::run) fn serve(
        &mut self,
        asked: Asked,
        sets: &mut Sets,
        (parameters, update): (&Parameters, u64),
        shared: &BridgeState<'_>,
        ranks: Option<&Ranks>,
    ) -> Result<(String, Result<(), String>), RunError> {
        Ok(match asked {
            Asked::LoadParameters { tag, set } => {
                let read = self.read_weights(&tag, set.as_deref(), ranks)?;
                let loaded = read.and_then(|(weights, metrics)| {
                    sets.load(&weights, parameters, shared)?;
                    sets.note_loaded(&tag, metrics, update);
                    Ok(())
                });
                (format!("load the parameters of `{tag}`"), loaded)
            }
            Asked::Delete(tag) => {
                let deleted = self.delete(&tag, ranks)?;
                (format!("delete the checkpoint `{tag}`"), deleted)
            }
            Asked::Copy { from, to } => {
                let copied = self.copy(&from, &to, ranks)?;
                let what = format!("copy the checkpoint `{from}` to `{to}`");
                // As a save: what the disk refuses does not end the training.
                let copied = copied.map(|failure| {
                    if let Some(error) = failure {
                        shared.warn(&format!("can't {what}: {error}"));
                    }
                });
                (what, copied)
            }
            Asked::Publish { tag, name, set } => {
                let published = self.publish_weights(&tag, &name, set.as_deref(), ranks)?;
                let published = published.map(|message| shared.info(&message));
                (format!("publish the weights of `{tag}`"), published)
            }
            _ => (String::new(), Ok(())),
        })
    }

    /// Deletes a checkpoint, if it exists.
    fn delete(&mut self, tag: &str, ranks: Option<&Ranks>) -> Served<()> {
        let deleted = on_first(ranks, || {
            let deleted = self.kept()?.remove(tag);
            deleted.map_err(|error| error.to_string())
        })?;
        if let Some(store) = &self.store {
            let path = store.path_of(tag);
            self.checkpoints.retain(|known| *known != path);
        }
        Ok(deleted)
    }

    /// Gives a checkpoint a second tag; returns why the disk has refused it, if it has.
    fn copy(&mut self, from: &str, to: &str, ranks: Option<&Ranks>) -> Served<Option<String>> {
        let copied = on_first(ranks, || {
            let store = self.kept()?;
            let tags = store.tags();
            match store.copy(from, to) {
                Ok(()) => Ok(None),
                Err(error) if tags.iter().any(|tag| tag == from) => Ok(Some(error.to_string())),
                Err(error) => Err(format!("{error}{}", known(&tags))),
            }
        })?;
        let path = self.store.as_ref().map(|store| store.path_of(to));
        if let (Ok(None), Some(path)) = (&copied, path)
            && !self.checkpoints.contains(&path)
        {
            self.checkpoints.push(path);
        }
        Ok(copied)
    }

    /// Writes a checkpoint's parameters to a file with its hash in the name; returns a message.
    fn publish_weights(
        &self,
        tag: &str,
        name: &str,
        set: Option<&str>,
        ranks: Option<&Ranks>,
    ) -> Served<String> {
        on_first(ranks, || {
            let (weights, _) = self.weights_of(tag, set)?;
            self.publish(name, weights.tensors)
        })
    }

    /// Reads a checkpoint's weights, those that were evaluated or those of a set, and its metrics.
    fn read_weights(
        &self,
        tag: &str,
        set: Option<&str>,
        ranks: Option<&Ranks>,
    ) -> Served<(Weights, SavedMetrics)> {
        if ranks.is_none() {
            return Ok(self.weights_of(tag, set));
        }
        let read = on_first(ranks, || {
            let (Weights { set, tensors }, metrics) = self.weights_of(tag, set)?;
            let bytes = safetensors::serialize(tensors, None).map_err(|error| error.to_string())?;
            let metrics = serde_json::to_string(&metrics).map_err(|error| error.to_string())?;
            Ok((set, bytes, metrics))
        })?;
        Ok(read.and_then(|(set, bytes, metrics)| {
            let tensors = checkpoint::tensors(&bytes)?;
            let metrics = serde_json::from_str(&metrics).map_err(|error| error.to_string())?;
            Ok((Weights { set, tensors }, metrics))
        }))
    }

    fn publish(&self, name: &str, tensors: Named) -> Result<String, String> {
        let store = self.kept()?;
        let directory = store.directory().with_file_name(PUBLISHED);
        let bytes = safetensors::serialize(tensors, None).map_err(|error| error.to_string())?;
        let hash = fingerprint(&bytes);
        let hash = hash.get(..DIGITS).unwrap_or(&hash);
        let file = format!("{name}-{hash}.safetensors");
        let run = store.run_directory();
        let written = run
            .make_directory(&directory)
            .and_then(|()| run.write_atomically(&directory.join(&file), &bytes));
        written.map_err(|error| error.to_string())?;
        // A file with the same name and a different hash is an older version.
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let other = entry.file_name().to_string_lossy().into_owned();
            if other != file && is_of(&other, name) {
                drop(run.remove(&entry.path()));
            }
        }
        Ok(format!(
            "published {PUBLISHED}/{file}, {} bytes",
            bytes.len()
        ))
    }

    /// A set of a checkpoint's weights, under the parameters' own names, and the checkpoint's metrics.
    fn weights_of(&self, tag: &str, set: Option<&str>) -> Result<(Weights, SavedMetrics), String> {
        let store = self.kept()?;
        checkpoint::weights_and_metrics(&store.path_of(tag), set).map_err(|error| match error {
            checkpoint::CheckpointError::Set { .. } => error.to_string(),
            error => format!("{error}{}", known(&store.tags())),
        })
    }

    fn kept(&self) -> Result<Store, String> {
        let store = (self.store.clone()).ok_or("the run has no output directory")?;
        match store.vanished() {
            Some(reason) => Err(reason),
            None => Ok(store),
        }
    }
}

/// Whether a file is a published version of this name: `NAME-HASH.safetensors`.
fn is_of(file: &str, name: &str) -> bool {
    let hash = file
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_suffix(".safetensors"));
    hash.is_some_and(|hash| hash.len() == DIGITS && hash.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_name_and_a_hash_are_older_ones() {
        assert!(is_of("best-0123abcd.safetensors", "best"));
        for other in [
            "best-loss-0123abcd.safetensors",
            "best-0123.safetensors",
            "best.safetensors",
        ] {
            assert!(!is_of(other, "best"), "{other}");
        }
    }
}

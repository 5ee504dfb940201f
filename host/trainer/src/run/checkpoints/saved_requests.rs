//! Requests of hooks about saved checkpoints: to delete, copy or publish one, or load its parameters.

use candle_core::Tensor;
use sconce_ops::host_copy;

use super::restore::known;
use crate::checkpoint::{self, SavedMetrics, Store, Weights};
use crate::digest::fingerprint;
use crate::run::Trainer;
use crate::run::failure::Leave;
use crate::weights::Comparison;

/// Subdirectory of the run directory for published weights.
const PUBLISHED: &str = "published";

/// Number of digits of the hash in a published file's name.
const DIGITS: usize = 8;

type Named = Vec<(String, Tensor)>;

impl Trainer<'_> {
    /// Deletes a checkpoint, if it exists.
    pub(in crate::run) fn delete_checkpoint(&mut self, tag: &str, hook: &str) -> Result<(), Leave> {
        self.settle_writing()?;
        let deleted = self.on_first(|trainer| {
            let deleted = trainer.kept()?.remove(tag);
            deleted.map_err(|error| error.to_string())
        })?;
        if let Some(store) = &self.saver.store {
            let path = store.path_of(tag);
            self.saver.checkpoints.retain(|known| *known != path);
        }
        self.judge(deleted, &format!("delete the checkpoint `{tag}`"), hook)
    }

    /// Gives a checkpoint a second tag.
    pub(in crate::run) fn copy_checkpoint(
        &mut self,
        from: &str,
        to: &str,
        hook: &str,
    ) -> Result<(), Leave> {
        self.settle_writing()?;
        let copied = self.on_first(|trainer| {
            let store = trainer.kept()?;
            let copied = store.copy(from, to);
            copied.map_err(|error| format!("{error}{}", known(&store.tags())))
        })?;
        let path = self.saver.store.as_ref().map(|store| store.path_of(to));
        if let (Ok(()), Some(path)) = (&copied, path)
            && !self.saver.checkpoints.contains(&path)
        {
            self.saver.checkpoints.push(path);
        }
        self.judge(
            copied,
            &format!("copy the checkpoint `{from}` to `{to}`"),
            hook,
        )
    }

    /// Loads only the parameters of a checkpoint: those that were evaluated, or those of a set. If one of
    /// them does not fit, nothing is changed. Loading averages also replaces the published set they come
    /// from, which evaluations swap in for the parameters.
    pub(in crate::run) fn load_parameters(
        &mut self,
        tag: &str,
        set: Option<&str>,
        hook: &str,
    ) -> Result<(), Leave> {
        self.settle_writing()?;
        let read = self.weights_together(tag, set)?;
        let loaded = read.and_then(|(weights, metrics)| {
            self.set_all(&weights)?;
            self.sets.note_loaded(tag, metrics, self.position.update);
            Ok(())
        });
        self.judge(loaded, &format!("load the parameters of `{tag}`"), hook)
    }

    fn set_all(&self, weights: &Weights) -> Result<(), String> {
        let tensors = &weights.tensors;
        if let Some(swapped) = &self.sets.swapped {
            return Err(format!("they are swapped for `{}`", swapped.set()));
        }
        let parameters = self.task.parameters();
        let comparison = Comparison::of(parameters, tensors);
        if !comparison.is_complete() {
            return Err(format!("they don't fit the model: {comparison}"));
        }
        for parameter in parameters.iter() {
            let found = tensors.iter().find(|(name, _)| name == parameter.name());
            let set = found.map(|(_, tensor)| parameter.assign(tensor));
            set.unwrap_or(Ok(())).map_err(|error| error.to_string())?;
        }
        // Without such a published set, there is nothing that an evaluation could use instead.
        for pair in self.pairs(&weights.set).unwrap_or_default() {
            let averages = pair.parameter.copy();
            let replaced =
                averages.and_then(|averages| host_copy::exchange(&pair.published, &averages));
            replaced.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes a checkpoint's parameters to a file with its hash in the name.
    pub(in crate::run) fn publish_weights(
        &mut self,
        tag: &str,
        name: &str,
        set: Option<&str>,
        hook: &str,
    ) -> Result<(), Leave> {
        self.settle_writing()?;
        let published = self.on_first(|trainer| {
            let (weights, _) = trainer.weights_of(tag, set)?;
            trainer.publish(name, weights.tensors)
        })?;
        if let Ok(message) = &published {
            self.shared.info(message);
        }
        let published = published.map(drop);
        self.judge(published, &format!("publish the weights of `{tag}`"), hook)
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

    /// As [`weights_of`](Self::weights_of), read by the first rank for all.
    fn weights_together(
        &mut self,
        tag: &str,
        set: Option<&str>,
    ) -> Result<Result<(Weights, SavedMetrics), String>, Leave> {
        if self.ranks.is_none() {
            return Ok(self.weights_of(tag, set));
        }
        let read = self.on_first(|trainer| {
            let (Weights { set, tensors }, metrics) = trainer.weights_of(tag, set)?;
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

    /// A set of a checkpoint's weights, under the parameters' own names, and the checkpoint's metrics.
    fn weights_of(&self, tag: &str, set: Option<&str>) -> Result<(Weights, SavedMetrics), String> {
        let store = self.kept()?;
        checkpoint::weights_and_metrics(&store.path_of(tag), set).map_err(|error| match error {
            checkpoint::CheckpointError::Set { .. } => error.to_string(),
            error => format!("{error}{}", known(&store.tags())),
        })
    }

    fn kept(&self) -> Result<Store, String> {
        let store = self.saver.store.clone();
        let store = store.ok_or_else(|| "the run has no output directory".to_owned())?;
        match store.vanished() {
            Some(reason) => Err(reason),
            None => Ok(store),
        }
    }

    /// Reports a failed request as a fault of the hook that made it.
    fn judge(&mut self, result: Result<(), String>, what: &str, hook: &str) -> Result<(), Leave> {
        match result {
            Ok(()) => Ok(()),
            Err(reason) => self.blame(hook, &format!("can't {what}: {reason}")),
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

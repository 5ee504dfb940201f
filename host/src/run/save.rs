//! Checkpoints of a run: what goes into one, and the way back.

use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Instant;

use candle_core::{Device, Tensor};
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi, ViewAbi};
use sconce_plugin_api::{Keep, Point};
use serde_json::value::RawValue;

use super::{RunError, Trainer};
use crate::bridge::{HOST_VERSION, Value};
use crate::checkpoint::{self, Checkpoint, Exact, FORMAT, Header, Progress, PublishedValue};
use crate::gradients::Gradients;

type TensorResult<T> = candle_core::Result<T>;

/// How writing or reading a checkpoint went, as hooks are told.
struct Told<'a> {
    path: &'a Path,
    tag: &'a str,
    hook: &'a str,
    error: &'a str,
    bytes: u64,
    seconds: f64,
}

impl Trainer<'_> {
    /// The file of a tag.
    fn path_of(&self, tag: &str) -> Option<PathBuf> {
        let directory = self.directory.as_ref()?.join("checkpoints");
        Some(directory.join(format!("{tag}.safetensors")))
    }

    /// Saves a checkpoint. That the file can't be written does not end the run.
    pub(super) fn save(&mut self, tag: &str, hook: &str) -> Result<(), RunError> {
        let Some(path) = self.path_of(tag) else {
            return self.blame(
                hook,
                "can't save a checkpoint: the run has no output directory",
            );
        };
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        let mut told = Told {
            path: &path,
            tag,
            hook,
            error: "",
            bytes: 0,
            seconds: 0.0,
        };
        self.tell(Point::BeforeSaveCheckpoint, &told)?;
        let start = Instant::now();
        let states = self.hooks.save_states(self.shared)?;
        let content = self.content(tag, &states);
        let content =
            content.map_err(|error| RunError::task("taking a checkpoint", &self.view, error))?;
        let written = checkpoint::write(&path, &content);
        told.seconds = start.elapsed().as_secs_f64();
        let error = match written {
            Ok(bytes) => {
                told.bytes = bytes;
                self.saved(&path);
                String::new()
            }
            Err(error) => {
                let warning = format!("the checkpoint `{tag}` is not saved: {error}");
                self.shared.warn(&warning);
                error.to_string()
            }
        };
        told.error = &error;
        let result = self.tell(Point::AfterSaveCheckpoint, &told);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        result
    }

    fn saved(&mut self, path: &Path) {
        self.shared.trail.set_checkpoint(&path.to_string_lossy());
        if !self.checkpoints.iter().any(|known| known == path) {
            self.checkpoints.push(path.to_owned());
        }
    }

    fn tell(&mut self, point: Point, told: &Told<'_>) -> Result<(), RunError> {
        let path = told.path.to_string_lossy();
        let payload = CheckpointAbi {
            path: TextAbi::new(&path),
            tag: TextAbi::new(told.tag),
            hook: TextAbi::new(told.hook),
            error: TextAbi::new(told.error),
            bytes: told.bytes,
            seconds: told.seconds,
        };
        self.view.payload = ptr::from_ref(&payload).cast();
        let result = self.call(point);
        self.view.payload = ptr::null();
        result
    }

    fn content(&self, tag: &str, states: &[(String, Vec<u8>)]) -> TensorResult<Checkpoint> {
        let parameters = self.task.parameters();
        let mut tensors = Vec::new();
        for parameter in parameters.iter() {
            let real = self.swapped.as_ref().and_then(|s| s.real(parameter.name()));
            let tensor = real.unwrap_or_else(|| parameter.tensor()).clone();
            tensors.push((format!("parameters/{}", parameter.name()), tensor));
        }
        let optimizer = self.optimizer.state(parameters);
        let optimizer = optimizer.map_err(candle_core::Error::wrap)?;
        tensors.extend(
            optimizer
                .into_iter()
                .map(|(name, t)| (format!("optimizer/{name}"), t)),
        );
        if let Some(accumulated) = &self.accumulated {
            for (index, parameter) in parameters.iter().enumerate() {
                if let Some(gradient) = accumulated.at(index) {
                    let gradient = gradient.contiguous()?;
                    tensors.push((format!("accumulated/{}", parameter.name()), gradient));
                }
            }
        }
        let (values, publishers) = self.published(&mut tensors);
        let mut extra = Vec::new();
        for (name, _, value) in self.shared.checkpoint_entries.of_kind(Keep::Checkpoint) {
            match value {
                Value::Json(text) => extra.push((name.into_string(), raw(&text)?)),
                Value::Tensor(tensor) => tensors.push((format!("extra/{name}"), tensor)),
            }
        }
        for (name, state) in states {
            let bytes = Tensor::from_vec(state.clone(), state.len(), &Device::Cpu)?;
            tensors.push((format!("hooks/{name}"), bytes));
        }
        let groups = self.shared.groups.borrow();
        let header = Header {
            format: FORMAT,
            host: HOST_VERSION.to_owned(),
            tag: tag.to_owned(),
            progress: self.progress(),
            learning_rates: groups
                .iter()
                .map(|group| (group.name.to_string(), Exact(group.learning_rate)))
                .collect(),
            metrics: self.shared.metrics.borrow().save(),
            values: values?,
            publishers,
            extra,
        };
        Ok(Checkpoint { header, tensors })
    }

    /// What hooks keep for the run: values, and the publishers of tensors, which go to `tensors`.
    fn published(
        &self,
        tensors: &mut Vec<(String, Tensor)>,
    ) -> (TensorResult<Vec<PublishedValue>>, Vec<(String, String)>) {
        let mut values = Vec::new();
        let mut publishers = Vec::new();
        for (name, owner, value) in self.shared.values.of_kind(Keep::Run) {
            let hook = self.shared.name_of(owner);
            match value {
                Value::Json(text) => values.push(raw(&text).map(|value| PublishedValue {
                    name: name.into_string(),
                    hook,
                    value,
                })),
                Value::Tensor(tensor) => {
                    let real = self.swapped.as_ref().and_then(|s| s.published(&name));
                    let tensor = real.cloned().unwrap_or(tensor);
                    tensors.push((format!("published/{name}"), tensor));
                    publishers.push((name.into_string(), hook));
                }
            }
        }
        (values.into_iter().collect(), publishers)
    }

    fn progress(&self) -> Progress {
        Progress {
            epoch: self.view.epoch,
            iteration: self.view.iteration,
            update: self.view.update,
            samples: self.view.samples,
            batch: self.trained,
            ordinal: self.view.ordinal,
            stage: self.stage,
        }
    }

    /// Goes back to a checkpoint of this run.
    pub(super) fn roll_back(&mut self, tag: &str, hook: &str) -> Result<(), RunError> {
        let Some(path) = self.path_of(tag) else {
            return self.blame(hook, "can't roll back: the run has no output directory");
        };
        let start = Instant::now();
        let content = match checkpoint::read(&path) {
            Ok(content) => content,
            Err(error) => {
                let known = self.tags();
                let message = format!("can't roll back to `{tag}`: {error}{known}");
                return self.blame(hook, &message);
            }
        };
        self.restore_swapped()?;
        self.restore(&content)?;
        let told = Told {
            path: &path,
            tag,
            hook,
            error: "",
            bytes: std::fs::metadata(&path).map_or(0, |file| file.len()),
            seconds: start.elapsed().as_secs_f64(),
        };
        let result = self.tell(Point::AfterLoadCheckpoint, &told);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        self.jumped = true;
        result
    }

    /// The tags that there are, for a message.
    fn tags(&self) -> String {
        let tags: Vec<String> = self
            .checkpoints
            .iter()
            .filter_map(|path| Some(format!("`{}`", path.file_stem()?.to_string_lossy())))
            .collect();
        if tags.is_empty() {
            return "; no checkpoint has been saved".to_owned();
        }
        format!("; there are {}", tags.join(", "))
    }

    /// Puts everything back where a checkpoint says it was.
    fn restore(&mut self, content: &Checkpoint) -> Result<(), RunError> {
        let restored = self.restore_tensors(content);
        restored.map_err(|error| RunError::task("restoring a checkpoint", &self.view, error))?;
        let state: Vec<(String, Tensor)> = content
            .under("optimizer/")
            .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
            .collect();
        self.optimizer
            .load_state(self.task.parameters(), &state)
            .map_err(|error| RunError::optimizer(&self.view, error))?;
        self.show_optimizer();
        let Header {
            progress,
            learning_rates,
            metrics,
            ..
        } = &content.header;
        let mut groups = self.shared.groups.borrow_mut();
        for (name, rate) in learning_rates {
            // A group that is no more needs no rate.
            drop(groups.set_learning_rate_of(name, rate.0));
        }
        let learning_rate = groups.default().learning_rate;
        drop(groups);
        self.shared.learning_rate.set(learning_rate);
        self.shared.metrics.borrow_mut().restore(metrics);
        self.view.epoch = progress.epoch;
        self.view.iteration = progress.iteration;
        self.view.update = progress.update;
        self.view.samples = progress.samples;
        self.view.batch = progress.batch;
        self.view.ordinal = progress.ordinal;
        self.view.flags &= !(ViewAbi::HAS_LOSS | ViewAbi::UPDATES);
        self.trained = progress.batch;
        self.stage = progress.stage;
        self.shared.clock.advance(progress.iteration);
        self.restore_values(content);
        let states = content.under("hooks/");
        let states: TensorResult<Vec<(String, Vec<u8>)>> = states
            .map(|(name, bytes)| Ok((name.to_owned(), bytes.to_vec1()?)))
            .collect();
        let states =
            states.map_err(|error| RunError::task("restoring hooks", &self.view, error))?;
        Ok(self.hooks.load_states(&states, self.shared)?)
    }

    /// Parameters and accumulated gradients; nothing is changed where one does not fit.
    fn restore_tensors(&mut self, content: &Checkpoint) -> TensorResult<()> {
        let parameters = self.task.parameters();
        let mut found = Vec::with_capacity(parameters.len());
        for parameter in parameters.iter() {
            let name = format!("parameters/{}", parameter.name());
            let Some(tensor) = content.tensor(&name) else {
                candle_core::bail!("the checkpoint lacks `{name}`");
            };
            if tensor.dims() != parameter.tensor().dims() {
                candle_core::bail!(
                    "`{name}` has the shape {:?}, the model's parameter {:?}",
                    tensor.dims(),
                    parameter.tensor().dims()
                );
            }
            found.push(tensor.to_dtype(parameter.tensor().dtype())?);
        }
        for (parameter, tensor) in parameters.iter().zip(&found) {
            parameter.var().set(tensor)?;
        }
        let mut accumulated = Gradients::none(parameters);
        let mut any = false;
        for (index, parameter) in parameters.iter().enumerate() {
            let name = format!("accumulated/{}", parameter.name());
            if let Some(gradient) = content.tensor(&name) {
                accumulated.set(index, gradient.clone());
                any = true;
            }
        }
        self.accumulated = any.then_some(accumulated);
        Ok(())
    }

    /// What hooks keep for the run, and the extra entries.
    fn restore_values(&self, content: &Checkpoint) {
        let values = &self.shared.values;
        for keep in [Keep::Batch, Keep::Epoch, Keep::Run] {
            values.forget(keep);
        }
        // A hook that is no more is nobody's index.
        let owner = |hook: &str| self.shared.hook_index(hook).unwrap_or(usize::MAX);
        for PublishedValue { name, hook, value } in &content.header.values {
            let value = Value::Json(value.get().into());
            values.set(name, Keep::Run, owner(hook), value);
        }
        for (name, hook) in &content.header.publishers {
            if let Some(tensor) = content.tensor(&format!("published/{name}")) {
                let tensor = Value::Tensor(tensor.clone());
                values.set(name, Keep::Run, owner(hook), tensor);
            }
        }
        let entries = &self.shared.checkpoint_entries;
        entries.forget(Keep::Checkpoint);
        for (name, value) in &content.header.extra {
            let value = Value::Json(value.get().into());
            entries.set(name, Keep::Checkpoint, usize::MAX, value);
        }
        for (name, tensor) in content.under("extra/") {
            let tensor = Value::Tensor(tensor.clone());
            entries.set(name, Keep::Checkpoint, usize::MAX, tensor);
        }
    }
}

/// A text that has been checked to be JSON.
fn raw(text: &str) -> TensorResult<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(candle_core::Error::wrap)
}

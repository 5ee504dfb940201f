//! The `tensorboard` hook: event files that TensorBoard can read, also during the run.
//!
//! | tag | content |
//! |---|---|
//! | `iteration/loss`, `iteration/METRIC` | during training, every `interval` iterations |
//! | `PHASE/METRIC` | at the end of each pass over a phase's data |
//! | `learning_rate`, `learning_rate/GROUP` | of the optimizer |
//! | `parameters/NAME`, `gradients/NAME` | histograms |
//! | `PHASE/inputs` | a grid of images |
//! | `manifest` | the run's manifest |

mod config;
mod event;
mod files;
mod histogram;
mod image;
mod record;

use std::time::Duration;

use config::{Axis, Config, HistogramOf};
use event::{Content, Value};
use files::EventFiles;
use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

/// State of the hook between calls.
pub(crate) struct TensorBoard {
    config: Config,
    files: EventFiles,
    /// The manifest, until it is written.
    manifest: Option<String>,
    /// Losses since the last interval.
    losses: Losses,
    /// Whether the parameters' histograms are due at the end of this iteration.
    is_histogram_due: bool,
    /// Whether the inputs turned out not to be images.
    has_no_images: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct Losses {
    #[serde(with = "state::bits")]
    sum: f64,
    #[serde(deserialize_with = "state::count")]
    count: u64,
}

#[hook(
    name = "tensorboard",
    about = "Writes scalars, histograms, images and the manifest for TensorBoard.",
    priority = LOW,
    state = [losses, files],
    reads = [groups, inputs],
    optional = loss
)]
impl Hook for TensorBoard {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let directory = config.directory.clone();
        let directory = directory.unwrap_or_else(|| setup.name().into());
        let directory = setup.path_below("directory", directory)?;
        if let Some([low, high]) = config.images_range.filter(|[low, high]| low >= high) {
            bail!("`images_range` goes from a lower to a higher number, found {low} and {high}");
        }
        let flush = Duration::try_from_secs_f64(config.flush_seconds)
            .context("`flush_seconds` is not a time")?;
        let manifest = if config.manifest {
            let json = setup.manifest()?;
            // Markdown shows an indented block as code.
            let lines = format!("{json:#}");
            Some(format!("    {}\n", lines.replace('\n', "\n    ")))
        } else {
            None
        };
        setup.reads(&config.reads())?;
        Ok(TensorBoard {
            files: EventFiles::new(directory, flush),
            config,
            manifest,
            losses: Losses::default(),
            is_histogram_due: false,
            has_no_images: false,
        })
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        // The data up to the checkpoint are kept.
        self.files.go_on_from(self.step_within(task) + 1);
        Ok(())
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let every = self.config.histograms_every;
        // The current update is not counted yet.
        if every == 0 || !(task.update() + 1).is_multiple_of(every) {
            return Ok(());
        }
        let of = &self.config.histograms_of;
        self.is_histogram_due = of.contains(&HistogramOf::Parameters);
        if !of.contains(&HistogramOf::Gradients) {
            return Ok(());
        }
        let step = match self.config.axis {
            Axis::Iteration | Axis::Epoch => task.iteration() + 1,
            Axis::Update => task.update() + 1,
            Axis::Samples => task.samples() + task.batch_size(),
        };
        let mut values = Vec::new();
        for gradient in task.gradients() {
            self.histogram("gradients", &gradient, &mut values)?;
        }
        self.add(step, values)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let images = self.config.images_every > 0 && task.batch() == 1;
        if images && !self.has_no_images {
            self.images(task)?;
        }
        if task.phase() != Phase::Train {
            return Ok(());
        }
        if let Some(loss) = task.loss() {
            self.losses.sum += loss;
            self.losses.count += 1;
        }
        let mut values = Vec::new();
        if std::mem::take(&mut self.is_histogram_due) {
            for parameter in task.parameters() {
                self.histogram("parameters", &parameter, &mut values)?;
            }
        }
        let interval = self.config.interval;
        if interval > 0 && task.iteration().is_multiple_of(interval) {
            self.interval(task, &mut values);
        }
        self.add(self.step_within(task), values)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let phase = task.phase();
        let mut values = Vec::new();
        if self.config.by_epoch {
            // `val/accuracy`, or `val/clean/accuracy` if there are several data sets.
            let mut prefix = phase.name().to_owned();
            if task.stream() != phase.name() {
                prefix = format!("{prefix}/{}", task.stream());
            }
            for (name, value) in task.metrics_of(phase) {
                if self.config.tables || !name.contains('/') {
                    values.push(Value::scalar(format!("{prefix}/{name}"), value));
                }
            }
        }
        if phase == Phase::Train && self.config.interval == 0 {
            self.rates(task, &mut values);
        }
        let step = match self.config.axis {
            Axis::Epoch => task.epoch(),
            _ => self.step_within(task),
        };
        self.add(step, values)
    }

    fn after_run(&mut self, _task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        self.files.flush()
    }
}

impl TensorBoard {
    /// The step number of events within an epoch.
    fn step_within(&self, task: &TaskView<'_>) -> u64 {
        match self.config.axis {
            Axis::Iteration | Axis::Epoch => task.iteration(),
            Axis::Update => task.update(),
            Axis::Samples => task.samples(),
        }
    }

    fn add(&mut self, step: u64, values: Vec<Value>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        if let Some(text) = self.manifest.take().filter(|_| self.files.is_new()) {
            let text = Value::text("manifest".to_owned(), text);
            self.files.add(0, vec![text])?;
        }
        self.files.add(step, values)
    }

    fn interval(&mut self, task: &TaskView<'_>, values: &mut Vec<Value>) {
        let Losses { sum, count } = std::mem::take(&mut self.losses);
        if count > 0 {
            let mean = sum / count as f64;
            values.push(Value::scalar("iteration/loss".to_owned(), mean));
        }
        for (name, value) in task.metrics_of(Phase::Train) {
            if name != "loss" && (self.config.tables || !name.contains('/')) {
                values.push(Value::scalar(format!("iteration/{name}"), value));
            }
        }
        self.rates(task, values);
    }

    fn rates(&self, task: &TaskView<'_>, values: &mut Vec<Value>) {
        if !self.config.learning_rates {
            return;
        }
        let groups: Vec<_> = task.groups().collect();
        if groups.len() < 2 {
            let rate = task.learning_rate();
            values.push(Value::scalar("learning_rate".to_owned(), rate));
            return;
        }
        for sconce_plugin_api::ParameterGroup {
            name,
            learning_rate: rate,
            ..
        } in groups
        {
            values.push(Value::scalar(format!("learning_rate/{name}"), rate));
        }
    }

    fn histogram(
        &self,
        of: &str,
        tensor: &sconce_plugin_api::tensor::Tensor<'_>,
        values: &mut Vec<Value>,
    ) -> Result<()> {
        if !self.config.has_histogram(tensor.name(), tensor.is_buffer()) {
            return Ok(());
        }
        if let Some(histogram) = histogram::histogram(tensor, self.config.buckets)? {
            values.push(Value {
                tag: format!("{of}/{}", tensor.name()),
                metadata: None,
                content: Some(Content::Histogram(histogram)),
            });
        }
        Ok(())
    }

    fn images(&mut self, task: &At<'_, impl HasBatch>) -> Result<()> {
        let phase = task.phase();
        // In training the current epoch is not counted yet, in validation it is.
        let epoch = task.epoch() + u64::from(phase == Phase::Train);
        if !epoch.is_multiple_of(self.config.images_every) {
            return Ok(());
        }
        let Config {
            images_count,
            images_range,
            axis,
            ..
        } = self.config;
        let grid = match image::grid(&task.inputs()?, images_count, images_range) {
            Ok(grid) => grid,
            Err(error) => {
                self.has_no_images = true;
                task.warn(format_args!("pictures are not written: {error}"));
                return Ok(());
            }
        };
        let value = Value {
            tag: format!("{phase}/inputs"),
            metadata: None,
            content: Some(Content::Image(grid)),
        };
        let step = match axis {
            Axis::Epoch => epoch,
            _ => self.step_within(task),
        };
        self.add(step, vec![value])
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    /// Step, tag and value of all scalars in the event files, in the order of their names.
    fn scalars(seen: &Seen, directory: &str) -> Vec<(i64, String, f32)> {
        let files = std::fs::read_dir(seen.run_directory().join(directory)).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        let mut found = Vec::new();
        for file in files {
            let bytes = std::fs::read(file).unwrap();
            let mut rest = &bytes[..];
            // Each message has its length and a checksum before it, and a checksum behind it.
            while let Some((length, behind)) = rest.split_first_chunk::<8>() {
                let length = u64::from_le_bytes(*length) as usize;
                let event = event::Event::decode(&behind[4..4 + length]).unwrap();
                rest = &behind[4 + length + 4..];
                let Some(event::What::Summary(summary)) = event.what else {
                    continue;
                };
                for value in summary.values {
                    if let Some(Content::Scalar(scalar)) = value.content {
                        found.push((event.step, value.tag, scalar));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn scalars_come_at_intervals_and_at_the_ends_of_passes() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .loss(|at| match at.phase {
                Phase::Train => 8.0 / 2.0_f64.powi(at.batch as i32),
                _ => 0.5,
            })
            .metric(Phase::Val, "accuracy", |_epoch| 0.25);
        let named = |scalars: &[(i64, &str, f32)]| -> Vec<(i64, String, f32)> {
            let scalars = scalars.iter();
            scalars
                .map(|&(step, tag, value)| (step, tag.to_owned(), value))
                .collect()
        };
        let seen = run.drive::<TensorBoard>(json!({"interval": 2}))?;
        let expected = named(&[
            (2, "iteration/loss", 6.0),
            (2, "learning_rate", 0.1),
            (4, "iteration/loss", 1.5),
            (4, "learning_rate", 0.1),
            (4, "train/loss", 3.75),
            (4, "val/loss", 0.5),
            (4, "val/accuracy", 0.25),
        ]);
        assert_eq!(scalars(&seen, "tensorboard"), expected);
        let config = json!({"interval": 0, "axis": "epoch", "directory": "events"});
        let seen = run.group("fc2", 0.5).drive::<TensorBoard>(config)?;
        let expected = named(&[
            (1, "train/loss", 3.75),
            (1, "learning_rate/default", 0.1),
            (1, "learning_rate/fc2", 0.05),
            (1, "val/loss", 0.5),
            (1, "val/accuracy", 0.25),
        ]);
        assert_eq!(scalars(&seen, "events"), expected);
        Ok(())
    }
}

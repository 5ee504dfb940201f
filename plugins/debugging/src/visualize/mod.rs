//! The `visualize` hook: draws inputs with their targets and predictions.
//!
//! `{"hook": "visualize", "config": {"every_epochs": 5, "count": 36, "mistakes": true}}`

mod picture;

use std::path::PathBuf;

use sconce_charts::GridRange;
use sconce_plugin_api::prelude::*;

use picture::Options;

/// What is drawn, when, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Draw the first batch of each training and validation pass every this many epochs, at
    /// least 1, and always that of the test; null: never. Default 1.
    #[schemars(range(min = 1))]
    every_epochs: Option<u64>,
    /// Draw the batch every this many training iterations, at least 1; null: never. Default null.
    #[schemars(range(min = 1))]
    every_iterations: Option<u64>,
    /// Maximum number of samples drawn from a batch, from 1 to 1024. Default 16.
    #[schemars(range(min = 1, max = 1024))]
    count: usize,
    /// Number of samples in a row, at least 1. Default (null): about as many as there are rows.
    #[schemars(range(min = 1))]
    columns: Option<usize>,
    /// Width and height of an image's pixel in the picture, in pixels, from 1 to 32. Default 3.
    #[schemars(range(min = 1, max = 32))]
    scale: usize,
    /// The value drawn as black; goes with `white`. Default (null): the smallest value.
    black: Option<f32>,
    /// The value drawn as white, above `black`. Default (null): the largest value.
    white: Option<f32>,
    /// Without `black` and `white`: whether all images of a picture share one range, or each has
    /// its own. Default true.
    common: bool,
    /// Whether target and prediction are written below the images. Default true.
    captions: bool,
    /// Whether only misclassified samples are drawn. Default false.
    mistakes: bool,
    /// Directory for the pictures, under the run's directory; they are named as in
    /// `val-epoch-003-iteration-000300.png`. Default `pictures`.
    directory: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            every_epochs: Some(1),
            every_iterations: None,
            count: 16,
            columns: None,
            scale: 3,
            black: None,
            white: None,
            common: true,
            captions: true,
            mistakes: false,
            directory: "pictures".into(),
        }
    }
}

/// See the [module](self).
pub(crate) struct Visualize {
    config: Config,
    range: GridRange,
    directory: PathBuf,
    classes: Vec<String>,
}

impl Visualize {
    fn is_due(&self, task: &TaskView<'_>) -> bool {
        // Neither the current batch nor the current epoch is counted yet.
        let is_nth = |every: Option<u64>, number: u64| {
            every.is_some_and(|every| number.is_multiple_of(every))
        };
        let epochs = self.config.every_epochs;
        match task.phase() {
            Phase::Train => {
                is_nth(self.config.every_iterations, task.iteration() + 1)
                    || task.batch() == 0 && is_nth(epochs, task.epoch() + 1)
            }
            Phase::Val => task.batch() == 0 && is_nth(epochs, task.epoch()),
            _ => task.batch() == 0 && epochs.is_some(),
        }
    }

    /// `val-epoch-003-iteration-000300.png`, for the current epoch, or the one being validated.
    fn file(&self, task: &TaskView<'_>) -> Result<PathBuf> {
        let (phase, stream) = (task.phase().name(), task.stream());
        let under_way = u64::from(task.phase() == Phase::Train);
        let (epoch, iteration) = (task.epoch() + under_way, task.iteration() + under_way);
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = if stream == phase || stream.is_empty() {
            phase.to_owned()
        } else {
            let plain = stream.chars().map(|c| if is_plain(c) { c } else { '_' });
            format!("{phase}-{}", plain.collect::<String>())
        };
        let file = format!("{name}-epoch-{epoch:03}-iteration-{iteration:06}.png");
        path_inside(&self.directory, file)
    }
}

#[hook(
    name = "visualize",
    about = "Draws inputs with their targets and predictions, every n epochs or iterations.",
    priority = LOW
)]
impl Hook for Visualize {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let range = match (config.black, config.white) {
            (Some(black), Some(white)) if black < white => GridRange::Fixed(black, white),
            (Some(black), Some(white)) => {
                bail!("`white` must be above `black`, found {white} and {black}")
            }
            (None, None) if config.common => GridRange::Common,
            (None, None) => GridRange::EachImage,
            _ => bail!("`black` and `white` go together: name both or neither"),
        };
        if let Some(plan) = setup.plan()?.filter(|plan| !plan.phases.is_empty()) {
            picture::size_of(&plan.sample_shape)?;
        }
        Ok(Visualize {
            directory: setup.path_below("directory", &config.directory)?,
            config,
            range,
            classes: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.classes = task.facts()?.classes;
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if !self.is_due(task) {
            return Ok(());
        }
        let (inputs, targets, outputs) = (task.inputs()?, task.targets()?, task.outputs()?);
        let mut samples = picture::samples(&inputs, &targets, &outputs, &self.classes)?;
        if self.config.mistakes {
            samples.retain(|sample| sample.is_wrong == Some(true));
        }
        samples.truncate(self.config.count);
        if samples.is_empty() {
            return Ok(());
        }
        let options = Options {
            columns: self.config.columns,
            scale: self.config.scale,
            range: self.range,
            captions: self.config.captions,
        };
        let png = picture::draw(&samples, picture::size(&inputs)?, options)?;
        write_atomically(self.file(task)?, png)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    /// Names of the pictures, sorted.
    fn pictures(seen: &Seen) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(seen.run_directory().join("pictures")) else {
            return Vec::new();
        };
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn the_first_batches_of_due_passes_are_drawn() -> std::result::Result<(), Failed> {
        // The first sample of each batch is taken for the wrong class.
        let run = ScriptedRun::new()
            .epochs(2)
            .iterations(2)
            .test(1)
            .sample_shape(&[1, 2, 2])
            .targets(|_batch| vec![0, 0])
            .outputs(|_batch| vec![0.0, 1.0, 1.0, 0.0]);
        let seen = run.drive::<Visualize>(json!({"every_epochs": 2, "mistakes": true}))?;
        assert_eq!(
            pictures(&seen),
            [
                "test-epoch-002-iteration-000004.png",
                "train-epoch-002-iteration-000003.png",
                "val-epoch-002-iteration-000004.png",
            ]
        );
        let seen = run.drive::<Visualize>(json!({"every_epochs": null, "every_iterations": 3}))?;
        assert_eq!(pictures(&seen), ["train-epoch-002-iteration-000003.png"]);
        // Without mistakes there is nothing to draw.
        let right = run.outputs(|_batch| vec![1.0, 0.0, 1.0, 0.0]);
        let seen = right.drive::<Visualize>(json!({"mistakes": true}))?;
        assert_eq!(pictures(&seen), [""; 0]);
        let failed = right.drive::<Visualize>(json!({"black": 1.0, "white": 0.5}));
        assert_eq!(
            failed.unwrap_err().message,
            "`white` must be above `black`, found 0.5 and 1"
        );
        // Samples that are not images are refused before the run.
        let table = ScriptedRun::new().sample_shape(&[4]);
        let failed = table.drive::<Visualize>(json!({})).unwrap_err();
        assert!(
            failed
                .message
                .starts_with("inputs of shape [4] are not images")
        );
        Ok(())
    }
}

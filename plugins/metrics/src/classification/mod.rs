//! The `classification` hook: classification scores for each pass over a phase's data.
//!
//! `{"hook": "classification", "config": {"average": ["macro"], "top_k": [5], "confusion": {}}}`

mod config;
mod matrix;
mod scores;

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use crate::classes::{self, Classified, Shown, is_among};
use crate::passes::{self, Pass};
use crate::phases::{self, ByPhase};
use crate::variables::Variable;
use config::{Config, ConfusionConfig};
use matrix::MOST_CLASSES;
use scores::{Average, Confusion};

/// Predictions of a pass, counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Decisions {
    confusion: Confusion,
    /// For each k, how often the true class was among the k highest scores.
    hits: Vec<u64>,
}

impl Decisions {
    /// Rejects states that no pass saves.
    fn check(&self) -> Result<()> {
        self.confusion.check()?;
        let total = self.confusion.total();
        match self.hits.iter().find(|hits| **hits > total) {
            Some(hits) => bail!("the state has {hits} hits of {total} decisions"),
            None => Ok(()),
        }
    }
}

/// See the [module](self).
pub(crate) struct Classification {
    config: Config,
    directory: PathBuf,
    outputs: Variable,
    targets: Variable,
    /// The task's class names, if it has any.
    names: Vec<String>,
    phases: ByPhase<Decisions>,
    /// The current batch.
    batch: Classified,
    shown: Shown,
}

impl Classification {
    fn publish(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let Some(decisions) = self.phases.of(task.phase()) else {
            return Ok(());
        };
        let (confusion, config) = (&decisions.confusion, &self.config);
        let (prefix, otherwise) = (&config.prefix, config.zero_division);
        let names = classes::names(&self.names, confusion.classes);
        for &score in &config.scores {
            let name = format!("{prefix}{}", score.name());
            if !score.is_by_class() {
                let value = confusion.score(score, Average::Macro, otherwise);
                task.publish_metric(&name, value)?;
                continue;
            }
            for &average in &config.average {
                if average == Average::None {
                    let values = confusion.by_class(score, otherwise);
                    for (class, value) in names.iter().zip(values) {
                        task.publish_metric(&format!("{name}/{class}"), value)?;
                    }
                    continue;
                }
                let value = confusion.score(score, average, otherwise);
                let behind = if config.average.len() == 1 {
                    ""
                } else {
                    average.suffix()
                };
                task.publish_metric(&format!("{name}{behind}"), value)?;
            }
        }
        let total = confusion.total() as f64;
        for (k, hits) in config.top_k.iter().zip(&decisions.hits) {
            task.publish_metric(&format!("{prefix}top{k}_accuracy"), *hits as f64 / total)?;
        }
        Ok(())
    }

    fn write(&mut self, task: &TaskView<'_>, config: &ConfusionConfig) -> Result<()> {
        let Some(decisions) = self.phases.of(task.phase()) else {
            return Ok(());
        };
        let confusion = &decisions.confusion;
        let given = config.names.as_ref().unwrap_or(&self.names);
        if config.names.is_some() && given.len() != confusion.classes {
            bail!(
                "`confusion.names` has {} names, and there are {} classes",
                given.len(),
                confusion.classes
            );
        }
        let names = classes::names(given, confusion.classes);
        let name = Pass::of(task).name(config.files);
        let path = |end: &str| path_inside(&self.directory, format!("confusion-{name}.{end}"));
        if config.csv {
            write_atomically(
                path("csv")?,
                matrix::table(confusion, config.normalise, &names)?,
            )?;
        }
        if config.picture && confusion.classes <= MOST_CLASSES {
            let title = config.title.clone();
            let title =
                title.unwrap_or_else(|| format!("{}, epoch {}", task.phase(), task.epoch()));
            let svg = matrix::picture(confusion, config.normalise, &names, title)?;
            write_atomically(path("svg")?, svg)?;
        }
        Ok(())
    }
}

#[hook(
    name = "classification",
    about = "Publishes accuracy, precision, recall, F1 and top-k; writes the confusion matrix.",
    publishes = [
        "*accuracy", "*precision", "*recall", "*f1", "*specificity", "*jaccard", "*mcc", "*kappa",
        "*precision/*", "*recall/*", "*f1/*", "*specificity/*", "*jaccard/*"
    ]
)]
impl Hook for Classification {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        config.check()?;
        let directory = config.confusion.as_ref();
        let directory = directory.map(|confusion| passes::directory(setup, &confusion.directory));
        Ok(Classification {
            directory: directory.transpose()?.unwrap_or_default(),
            outputs: Variable::new(&config.outputs),
            targets: Variable::new(&config.targets),
            names: Vec::new(),
            phases: ByPhase::default(),
            batch: Classified::default(),
            shown: Shown::new(config.mask.as_deref(), config.ignore_index),
            config,
        })
    }

    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        self.names = task.facts()?.classes;
        Ok(())
    }

    fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        // A batch skipped by a hook has no outputs.
        if task.loss().is_none() || !phases::has(&self.config.phases, task.phase()) {
            return Ok(());
        }
        let batch = &mut self.batch;
        batch.read_from(
            &mut self.outputs,
            &mut self.targets,
            task,
            self.config.threshold,
        )?;
        self.shown.read(task, batch.targets.len())?;
        let Some(decisions) = self.phases.of(task.phase()) else {
            return Ok(());
        };
        decisions.hits.resize(self.config.top_k.len(), 0);
        for (place, &prediction) in batch.predictions.iter().enumerate() {
            if !self.shown.has(place, batch) {
                continue;
            }
            let target = batch.target(place)?;
            decisions
                .confusion
                .count(batch.classes(), target, prediction);
            for (k, hits) in self.config.top_k.iter().zip(&mut decisions.hits) {
                let is_hit = match batch.width {
                    1 => *k > 1 || target == prediction,
                    _ => is_among(batch.row(place), target, *k),
                };
                *hits += u64::from(is_hit);
            }
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let phase = task.phase();
        let total = self
            .phases
            .of(phase)
            .map_or(0, |decisions| decisions.confusion.total());
        if total == 0 {
            return Ok(());
        }
        self.publish(task)?;
        if let Some(config) = self.config.confusion.take() {
            let written = self.write(task, &config);
            self.config.confusion = Some(config);
            written?;
        }
        if let Some(decisions) = self.phases.of(phase) {
            decisions.confusion.clear();
            decisions.hits.fill(0);
        }
        Ok(())
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&self.phases.iter().collect::<Vec<_>>())
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        let saved: Vec<Decisions> = state::from_bytes(bytes)?;
        for decisions in &saved {
            decisions.check()?;
        }
        let mut saved = saved.into_iter();
        for decisions in self.phases.iter_mut() {
            *decisions = saved.next().unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn scores_and_the_confusion_matrix_are_those_of_the_pass() -> std::result::Result<(), Failed> {
        // Targets 0, 1, 1, 1, predictions 0, 0, 1, 1.
        let run = ScriptedRun::new()
            .epochs(2)
            .targets(|batch| vec![batch as u32 % 2, 1])
            .outputs(|batch| match batch {
                0 => vec![1.0, 0.0, 1.0, 0.0],
                _ => vec![0.0, 1.0, 0.0, 1.0],
            });
        let config = json!({
            "scores": ["accuracy", "precision"], "average": ["macro", "none"], "top_k": [2],
            "prefix": "", "confusion": {"picture": false},
        });
        let seen = run.drive::<Classification>(config)?;
        let published = seen.metrics().iter();
        let published: Vec<_> = published
            .map(|metric| (metric.at.phase, metric.name.as_str(), metric.value))
            .collect();
        let val = Phase::Val;
        let of_each = [
            (val, "accuracy", 0.75),
            (val, "precision/macro", 0.75),
            (val, "precision/no", 0.5),
            (val, "precision/yes", 1.0),
            (val, "top2_accuracy", 1.0),
        ];
        assert_eq!(published, [of_each, of_each].concat());
        assert_eq!(
            seen.file("confusion-val.csv").unwrap(),
            "true \\ predicted,no,yes\nno,1,0\nyes,1,2\n"
        );
        run.check_resume::<Classification>(json!({"phases": ["train", "val"]}))
    }
}

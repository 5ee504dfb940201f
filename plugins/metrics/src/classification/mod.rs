//! The `classification` hook: classification scores for each pass over a phase's data.
//!
//! `{"hook": "classification", "config": {"average": ["macro"], "top_k": [5], "confusion": {}}}`

mod config;
mod matrix;
mod probabilities;
mod scores;

use std::path::PathBuf;

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::classes::{self, Classified, Shown, is_among};
use crate::contributions::{are_divided, writes_files};
use crate::passes::{self, Pass};
use crate::phases::{self, ByPhase};
use crate::variables::{self, Variable};
use config::{Config, ConfusionConfig};
use matrix::MOST_CLASSES;
use probabilities::Probabilities;
use scores::{Average, Confusion, Score};

/// Predictions of a pass, counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Decisions {
    confusion: Confusion,
    /// For each k, how often the true class was among the k highest scores.
    hits: Vec<u64>,
    /// The probabilities, if a score needs them.
    #[serde(default)]
    probabilities: Probabilities,
}

impl Decisions {
    /// The counts that are not 0, for other ranks.
    fn counted(&self) -> Counted {
        let classes = self.confusion.classes;
        let cells = self.confusion.counts.iter().enumerate();
        let cells = cells.filter(|(_, count)| **count > 0);
        Counted {
            classes,
            cells: cells
                .map(|(index, count)| (index / classes, index % classes, *count))
                .collect(),
            hits: self.hits.clone(),
            probabilities: self.probabilities.clone(),
        }
    }

    fn add(&mut self, counted: &Counted) -> Result<()> {
        for &(target, prediction, count) in &counted.cells {
            self.confusion
                .add(counted.classes, target, prediction, count);
        }
        let length = self.hits.len().max(counted.hits.len());
        self.hits.resize(length, 0);
        for (hits, more) in self.hits.iter_mut().zip(&counted.hits) {
            *hits += more;
        }
        self.probabilities.extend(&counted.probabilities)
    }

    /// The score of all classes together; `None` where it is undefined.
    fn score(&self, score: Score, average: Average, otherwise: f64) -> Option<f64> {
        if score.is_of_probabilities() {
            return (self.has_all_probabilities())
                .then(|| self.probabilities.score(score, average))
                .flatten();
        }
        Some(self.confusion.score(score, average, otherwise))
    }

    /// The score of each class; `None` where it is undefined.
    fn by_class(&self, score: Score, otherwise: f64) -> Vec<Option<f64>> {
        if score.is_of_probabilities() {
            if !self.has_all_probabilities() {
                return Vec::new();
            }
            return self.probabilities.by_class(score);
        }
        let values = self.confusion.by_class(score, otherwise).into_iter();
        values.map(Some).collect()
    }

    /// Whether all targets of the pass have their probabilities: not where a run was resumed in its midst with more
    /// scores than before.
    fn has_all_probabilities(&self) -> bool {
        self.probabilities.len() as u64 == self.confusion.total()
    }

    /// Forgets everything, the number of classes too: the states of ranks that have counted and of those that had nothing to count
    /// are then the same.
    fn clear(&mut self) {
        *self = Decisions::default();
    }

    /// Rejects states that no pass saves.
    fn check(&self) -> Result<()> {
        self.confusion.check()?;
        self.probabilities.check()?;
        let total = self.confusion.total();
        match self.hits.iter().find(|hits| **hits > total) {
            Some(hits) => bail!("the state has {hits} hits of {total} decisions"),
            None => Ok(()),
        }
    }
}

/// What a rank has counted in an update.
#[derive(Serialize, Deserialize)]
struct Counted {
    classes: usize,
    /// Target, prediction and count.
    cells: Vec<(usize, usize, u64)>,
    hits: Vec<u64>,
    probabilities: Probabilities,
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
    /// Predictions that other ranks don't know of yet, where batches are divided among them.
    update: Decisions,
    /// The current batch.
    batch: Classified,
    /// Probabilities of one row.
    shares: Vec<f64>,
    shown: Shown,
}

impl Classification {
    /// Counts the predictions of the current batch.
    fn count(&mut self, task: &At<'_, impl HasBatch>) -> Result<()> {
        let batch = &mut self.batch;
        batch.read_from(
            &mut self.outputs,
            &mut self.targets,
            task,
            self.config.threshold,
        )?;
        self.shown.read(task, batch.targets.len())?;
        let place = if are_divided(task) {
            Some(&mut self.update)
        } else {
            self.phases.of(task.phase())
        };
        let Some(decisions) = place else {
            return Ok(());
        };
        decisions.hits.resize(self.config.top_k.len(), 0);
        let keeps = self.config.keeps_probabilities();
        for (place, &prediction) in batch.predictions.iter().enumerate() {
            if !self.shown.has(place, batch) {
                continue;
            }
            let target = batch.target(place)?;
            decisions
                .confusion
                .count(batch.classes(), target, prediction);
            if keeps {
                let shares = &mut self.shares;
                decisions.probabilities.push(batch, place, target, shares)?;
            }
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

    /// Adds what all ranks have counted in an update to the pass.
    fn exchange(&mut self, task: &At<'_, impl HasBatch>) -> Result<()> {
        let all = task.ranks().gather_values(&self.update.counted())?;
        self.update.clear();
        if let Some(decisions) = self.phases.of(task.phase()) {
            for counted in &all {
                decisions.add(counted)?;
            }
        }
        Ok(())
    }

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
                if let Some(value) = decisions.score(score, Average::Macro, otherwise) {
                    task.publish_metric(&name, value)?;
                }
                continue;
            }
            for &average in &config.average {
                if average == Average::None {
                    let values = decisions.by_class(score, otherwise);
                    for (class, value) in names.iter().zip(values) {
                        if let Some(value) = value {
                            task.publish_metric(&format!("{name}/{class}"), value)?;
                        }
                    }
                    continue;
                }
                let Some(value) = decisions.score(score, average, otherwise) else {
                    continue;
                };
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
    about = "Publishes accuracy, precision, recall, F1, top-k, areas under curves and calibration; writes the confusion matrix.",
    publishes = [
        "*accuracy", "*precision", "*recall", "*f1", "*specificity", "*jaccard", "*mcc", "*kappa",
        "*roc_auc", "*pr_auc", "*calibration_error",
        "*precision/*", "*recall/*", "*f1/*", "*specificity/*", "*jaccard/*", "*roc_auc/*", "*pr_auc/*"
    ],
    ranks = "all",
    state = phases,
    reads = [batch, inputs, targets, outputs, sample_indices, ranks]
)]
impl Hook for Classification {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        config.check()?;
        let names = [
            Some(&config.outputs),
            Some(&config.targets),
            config.mask.as_ref(),
        ];
        variables::declare(setup, names.into_iter().flatten().map(String::as_str))?;
        let directory = config.confusion.as_ref();
        let directory = directory.map(|confusion| passes::directory(setup, &confusion.directory));
        Ok(Classification {
            directory: directory.transpose()?.unwrap_or_default(),
            outputs: Variable::new(&config.outputs),
            targets: Variable::new(&config.targets),
            names: Vec::new(),
            phases: ByPhase::default(),
            update: Decisions::default(),
            batch: Classified::default(),
            shares: Vec::new(),
            shown: Shown::new(config.mask.as_deref(), config.ignore_index),
            config,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.names = task.facts()?.classes;
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if !phases::has(&self.config.phases, task.phase()) {
            return Ok(());
        }
        // A batch skipped by a hook has no outputs.
        if task.losses().is_known() && !task.ranks().is_repeated() {
            self.count(task)?;
        }
        if are_divided(task) && task.is_update_due() {
            self.exchange(task)?;
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let phase = task.phase();
        let total = self
            .phases
            .of(phase)
            .map_or(0, |decisions| decisions.confusion.total());
        if total == 0 {
            return Ok(());
        }
        self.publish(task)?;
        if let Some(config) = self.config.confusion.take_if(|_| writes_files(task)) {
            let written = self.write(task, &config);
            self.config.confusion = Some(config);
            written?;
        }
        if let Some(decisions) = self.phases.of(phase) {
            decisions.clear();
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.phases.iter().try_for_each(Decisions::check)?;
        self.update.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
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
        let all = json!({"phases": ["train", "val"], "scores": ["roc_auc", "calibration_error"]});
        run.check_resume::<Classification>(all)?;
        run.check_resume::<Classification>(json!({"phases": ["train", "val"]}))
    }

    #[test]
    fn ranks_count_together_what_one_process_counts() -> std::result::Result<(), Failed> {
        // Four batches: on three ranks a round of three, and one batch more, which the others repeat.
        let targets = |batch: u64| vec![batch as u32 % 2, 1];
        let outputs = |batch: u64| match batch {
            0 | 3 => vec![1.0, 0.0, 1.0, 0.0],
            _ => vec![0.0, 1.0, 0.0, 1.0],
        };
        let config = json!({"phases": ["train"], "scores": ["accuracy", "f1", "roc_auc", "pr_auc", "calibration_error"],
            "top_k": [1], "confusion": {}});
        let alone = ScriptedRun::new()
            .epochs(1)
            .targets(targets)
            .outputs(outputs);
        let alone = alone.drive::<Classification>(config.clone())?;
        let script = |rank: usize| {
            let batch = move |round: u64| if round == 0 { rank as u64 } else { 3 };
            let run = ScriptedRun::new().epochs(1).iterations(2);
            run.targets(move |round| targets(batch(round)))
                .outputs(move |round| outputs(batch(round)))
                .repeats(move |round| round == 1 && rank > 0)
        };
        let all = ScriptedRun::drive_ranks::<Classification>(&config, 3, script)?;
        let values = |seen: &Seen| -> Vec<_> {
            let metrics = seen.metrics().iter();
            metrics
                .map(|metric| (metric.name.clone(), metric.value))
                .collect()
        };
        assert_eq!(values(&alone).len(), 6);
        for seen in &all {
            assert_eq!(values(seen), values(&alone));
            assert_eq!(seen.state(), alone.state());
        }
        let table = alone.file("confusion-train.csv").unwrap();
        assert_eq!(all[0].file("confusion-train.csv").unwrap(), table);
        assert!(all[1].file("confusion-train.csv").is_err(), "one writes it");
        Ok(())
    }
}

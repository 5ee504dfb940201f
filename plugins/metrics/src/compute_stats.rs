//! The `compute-stats` hook: statistics of variables for each pass over a phase's data.
//!
//! `{"hook": "compute-stats", "config": {"variables": {"outputs": ["mean", "std", "nan_count"]}}}`

use std::collections::BTreeMap;

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::contributions::{Contributions, are_divided};
use crate::phases::{self, ByPhase, PhaseName};
use crate::statistics::{Aggregate, Statistics};
use crate::variables::{self, Variable};
use crate::watched::{AllWatched, Watched};

/// Which statistics of which variables are published.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Variables and their statistics, each published at the end of a pass as the metric
    /// `VARIABLE/STATISTIC`. A variable is a tensor of the batch (`inputs`, `targets`, `outputs`, `loss`),
    /// or a tensor, numbers or a metric that another hook publishes. Default: mean, std, min and max of the
    /// outputs.
    variables: BTreeMap<String, Vec<Aggregate>>,
    /// Phases to evaluate. Default: all three.
    phases: Vec<PhaseName>,
    /// Interval of the batches evaluated in a pass, starting with the first; at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Whether NaN values are left out, except by `nan_count` and `nan_fraction`. Otherwise a single one
    /// makes all other statistics NaN. Default false.
    skip_nan: bool,
    /// Prefix of the metrics' names. Default: none.
    prefix: String,
}

impl Default for Config {
    fn default() -> Self {
        use Aggregate as A;
        let default = ("outputs".to_owned(), vec![A::Mean, A::Std, A::Min, A::Max]);
        Config {
            variables: BTreeMap::from([default]),
            phases: PhaseName::ALL.to_vec(),
            every: 1,
            skip_nan: false,
            prefix: String::new(),
        }
    }
}

/// What is computed of a variable.
struct Wanted {
    /// Statistics and the names of their metrics.
    aggregates: Vec<(Aggregate, String)>,
    keeps: bool,
}

/// See the [module](self).
pub(crate) struct ComputeStats {
    config: Config,
    watched: AllWatched<Wanted, Statistics>,
    /// Values of the current batch.
    values: Vec<f64>,
    /// Of each batch, by variable, where batches are divided among ranks.
    contributions: Contributions<Vec<Statistics>>,
}

impl ComputeStats {
    /// Statistics of the current batch, by variable.
    fn of_batch(&mut self, task: &At<'_, impl HasBatch>) -> Result<Vec<Statistics>> {
        let mut all = Vec::with_capacity(self.watched.0.len());
        for watched in &mut self.watched.0 {
            watched.variable.read(task, &mut self.values)?;
            let mut statistics = Statistics::default();
            statistics.add(&self.values, self.config.skip_nan, watched.wanted.keeps);
            all.push(statistics);
        }
        Ok(all)
    }

    /// Adds the batches of all ranks, once those of an update are done.
    fn exchange(&mut self, task: &At<'_, impl HasBatch>, is_left_out: bool) -> Result<()> {
        let own = (!is_left_out).then(|| self.of_batch(task)).transpose()?;
        for batch in self.contributions.exchange(task, own)? {
            for (watched, more) in self.watched.0.iter_mut().zip(&batch) {
                if let Some(statistics) = watched.phases.of(task.phase()) {
                    statistics.merge(more);
                }
            }
        }
        Ok(())
    }
}

#[hook(
    name = "compute-stats",
    about = "Publishes mean, spread, median and the like of any variable, by pass and phase.",
    publishes = [
        "*/mean", "*/std", "*/var", "*/min", "*/max", "*/median", "*/sum", "*/nan_count", "*/nan_fraction"
    ],
    ranks = "all",
    state = watched,
    reads = [batch, inputs, targets, outputs, sample_indices, ranks]
)]
impl Hook for ComputeStats {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        variables::declare(setup, config.variables.keys().map(String::as_str))?;
        let watched = (config.variables.iter()).map(|(name, aggregates)| Watched {
            variable: Variable::new(name),
            wanted: Wanted {
                aggregates: (aggregates.iter())
                    .map(|&aggregate| {
                        let metric = format!("{}{name}/{}", config.prefix, aggregate.name());
                        (aggregate, metric)
                    })
                    .collect(),
                keeps: aggregates.contains(&Aggregate::Median),
            },
            phases: ByPhase::default(),
        });
        let watched = AllWatched(watched.collect());
        if config.variables.values().all(Vec::is_empty) {
            bail!("`variables` asks for no statistics, as in {{\"outputs\": [\"mean\"]}}");
        }
        Ok(ComputeStats {
            watched,
            config,
            values: Vec::new(),
            contributions: Contributions::default(),
        })
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let (phase, batch) = (task.phase(), task.batch().saturating_sub(1));
        // A batch skipped by a hook has no outputs.
        let is_left_out = !task.losses().is_known() || !batch.is_multiple_of(self.config.every);
        if !phases::has(&self.config.phases, phase) {
            return Ok(());
        }
        if are_divided(task) {
            return self.exchange(task, is_left_out);
        }
        if is_left_out {
            return Ok(());
        }
        for watched in &mut self.watched.0 {
            watched.variable.read(task, &mut self.values)?;
            if let Some(statistics) = watched.phases.of(phase) {
                statistics.add(&self.values, self.config.skip_nan, watched.wanted.keeps);
            }
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let phase = task.phase();
        for watched in &mut self.watched.0 {
            let Some(statistics) = watched.phases.of(phase) else {
                continue;
            };
            if statistics.is_empty() {
                continue;
            }
            for (aggregate, metric) in &watched.wanted.aggregates {
                let value = statistics.of(*aggregate, self.config.skip_nan);
                task.publish_metric(metric, value)?;
            }
            statistics.clear();
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.contributions = Contributions::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn statistics_of_chosen_batches_are_published_for_each_pass() -> std::result::Result<(), Failed>
    {
        let run = ScriptedRun::new()
            .epochs(2)
            .validation(3)
            .outputs(|batch| {
                [1.0, 2.0, f32::NAN, 5.0]
                    .map(|x| x * (batch + 1) as f32)
                    .to_vec()
            })
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64);
        let config = json!({
            "variables": {"outputs": ["mean", "max", "nan_count"], "accuracy": ["mean"]},
            "phases": ["val"], "every": 2, "skip_nan": true, "prefix": "of/",
        });
        let seen = run.drive::<ComputeStats>(config)?;
        let published = seen.metrics().iter();
        let published: Vec<_> = published
            .map(|metric| (metric.at.epoch, metric.name.as_str(), metric.value))
            .collect();
        // The first and the third batch: 1, 2, 5 and 3, 6, 15.
        let of_epoch = |epoch| {
            [
                (epoch, "of/accuracy/mean", 0.25 * epoch as f64),
                (epoch, "of/outputs/mean", 32.0 / 6.0),
                (epoch, "of/outputs/max", 15.0),
                (epoch, "of/outputs/nan_count", 2.0),
            ]
        };
        assert_eq!(published, [of_epoch(1), of_epoch(2)].concat());
        let config = json!({"variables": {"outputs": ["median", "sum"]}, "skip_nan": true});
        run.check_resume::<ComputeStats>(config)?;
        let failed = run.drive::<ComputeStats>(json!({"variables": {"outputs": []}}));
        assert!(
            failed
                .unwrap_err()
                .message
                .starts_with("`variables` asks for no statistics")
        );
        Ok(())
    }

    #[test]
    fn statistics_over_ranks_have_the_bits_of_one_process() -> std::result::Result<(), Failed> {
        let outputs = |batch: u64| (1..5).map(|x| 0.1 * (x * (batch + 1)) as f32).collect();
        let config = json!({
            "variables": {"outputs": ["mean", "std", "sum", "median", "max"], "loss": ["sum"]}, "phases": ["train"],
        });
        // Updates of four batches: two rounds of two ranks with two batches each.
        let run = ScriptedRun::new().epochs(1).iterations(6).accumulate(4);
        let run = run.outputs(outputs).loss(|at| 0.1 * at.iteration as f64);
        let alone = run.drive::<ComputeStats>(config.clone())?;
        // The second update has two batches, one for each rank.
        let number = |rank: usize, round: u64| match round {
            2 => 4 + rank as u64,
            round => 2 * rank as u64 + round,
        };
        let script = |rank: usize| {
            let run = ScriptedRun::new().epochs(1).iterations(3).accumulate(2);
            run.outputs(move |round| outputs(number(rank, round)))
                .loss(move |at| 0.1 * number(rank, at.iteration) as f64)
        };
        let bits = |seen: &sconce_plugin_testing::Seen| -> Vec<_> {
            let metrics = seen.metrics().iter();
            metrics
                .map(|metric| (metric.name.clone(), metric.value.to_bits()))
                .collect()
        };
        assert_eq!(bits(&alone).len(), 6);
        for seen in ScriptedRun::drive_ranks::<ComputeStats>(&config, 2, script)? {
            assert_eq!(bits(&seen), bits(&alone));
        }
        Ok(())
    }
}

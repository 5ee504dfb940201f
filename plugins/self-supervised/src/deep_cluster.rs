//! The `deep-cluster` hook: from each view, the cluster of its sample is to be told, among clusters that are found again before each epoch.
//!
//! Caron, Bojanowski, Joulin and Douze, "Deep Clustering for Unsupervised Learning of Visual Features", 2018, in the second version of Caron
//! et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020: embeddings are directions, kept in a bank by
//! sample while they are trained on, and the prototypes of the last layer become the clusters' means.

use sconce_plugin_api::Collection;
use sconce_plugin_api::moment::ChangesParameters;
use sconce_plugin_api::prelude::*;

use crate::clustering::{Clustering, cluster};
use crate::learner::Learner;
use crate::losses::{self, Rows, SwavConfig, balanced};
use crate::outputs::{check_plan, check_temperature, table};
use crate::prototypes::{ModuleOutputs, Prototypes};
use crate::queue::directions;

/// How samples are put into clusters, and clusters told.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Name of the last layer, a `linear` without bias: it has an output for each cluster.
    prototypes: String,
    /// Name of the layer before, a `unit-norm`.
    embeddings: String,
    /// Divides the scores, above 0. Default 0.1.
    #[serde(default = "temperature")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    temperature: f64,
    /// Rounds of k-means before each epoch, from 1 to 1000. Default 10.
    #[serde(default = "rounds")]
    #[schemars(range(min = 1, max = 1000))]
    rounds: u32,
}

fn temperature() -> f64 {
    0.1
}

fn rounds() -> u32 {
    10
}

/// See the [module](self).
pub(crate) struct DeepCluster {
    loss: losses::Clusters,
    prototypes: Prototypes,
    embeddings: ModuleOutputs,
    rounds: usize,
    seed: u64,
    is_resumed: bool,
    /// Number of samples that the bank has room for.
    samples: u64,
    /// Name of the bank: a row for each sample, zeros before it was seen.
    bank: String,
    /// Name of the clusters: a number for each sample, -1 before it was seen.
    clusters: String,
    /// With the embeddings of a batch's samples, by their indices.
    learner: Learner<(Vec<u64>, Vec<f32>)>,
}

impl DeepCluster {
    /// Finds clusters of what the bank has, and makes them the prototypes.
    fn cluster(&self, task: &mut At<'_, impl ChangesParameters>) -> Result<()> {
        let published = task.tensors(Collection::Published);
        if !published.has(&self.bank)? {
            return Ok(());
        }
        let count = match task
            .tensors(Collection::Parameters)
            .named(self.prototypes.weight())?
            .shape()
        {
            &[count, _] => usize::try_from(count).unwrap_or_default(),
            shape => bail!("prototypes are rows of numbers, found the shape {shape:?}"),
        };
        let bank = published.named(&self.bank)?;
        let (rows, width) = table(&bank)?;
        let asked = Clustering {
            clusters: count,
            rounds: self.rounds,
            seed: self.seed ^ task.epoch().rotate_left(32),
        };
        let Some(found) = cluster(Rows::new(&rows, width)?, &asked)? else {
            return Ok(());
        };
        self.prototypes.set(task, &found.means)?;
        let numbers: Vec<f32> = found
            .of_rows
            .iter()
            .map(|of| of.map_or(-1.0, |of| of as f32))
            .collect();
        task.publish_tensor(&self.clusters, &[numbers.len()], &numbers, Keep::Run)
    }

    /// How much each sample of a batch belongs to each cluster: wholly to its own, or, before it was in a clustering, as its batch's scores are
    /// spread evenly.
    fn targets(
        task: &TaskView<'_>,
        (clusters, indices): (&str, &[u64]),
        scores: Rows<'_>,
    ) -> Result<Vec<f32>> {
        let published = task.tensors(Collection::Published);
        let width = scores.width();
        let spread = || balanced(&SPREAD, scores);
        if !published.has(clusters)? {
            return Ok(spread());
        }
        let known = published.named(clusters)?.to_vec::<f32>()?;
        let of = |index: &u64| {
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            let cluster = known.get(index).copied().filter(|cluster| *cluster >= 0.0);
            cluster
                .map(|cluster| cluster as usize)
                .filter(|cluster| *cluster < width)
        };
        let mut targets = if indices.iter().all(|index| of(index).is_some()) {
            vec![0.0; scores.values().len()]
        } else {
            spread()
        };
        for (row, index) in targets.chunks_exact_mut(width).zip(indices) {
            if let Some(cluster) = of(index) {
                row.fill(0.0);
                row[cluster] = 1.0;
            }
        }
        Ok(targets)
    }

    /// Puts what the update's batches have given into the bank.
    fn keep(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let batches = self.learner.parts.gather(task)?;
        let width = self.embeddings.width();
        if width == 0 {
            return Ok(());
        }
        if !task.tensors(Collection::Published).has(&self.bank)? {
            let rows = usize::try_from(self.samples).unwrap_or(usize::MAX);
            let none = vec![0.0_f32; rows.saturating_mul(width)];
            task.publish_tensor(&self.bank, &[rows, width], &none, Keep::Run)?;
        }
        let mut bank = task.published_tensor_mut(&self.bank)?;
        let bank = bank.as_mut_slice::<f32>()?;
        for (indices, rows) in &batches {
            for (index, row) in indices.iter().zip(rows.chunks_exact(width)) {
                let begin = usize::try_from(*index)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(width);
                if let Some(place) = bank.get_mut(begin..begin.saturating_add(width)) {
                    place.copy_from_slice(row);
                }
            }
        }
        Ok(())
    }
}

/// How scores are spread before there are clusters.
const SPREAD: SwavConfig = SwavConfig {
    temperature: 0.1,
    epsilon: 0.05,
    iterations: 3,
};

#[hook(
    name = "deep-cluster",
    about = "Learns without labels: views tell the cluster of their sample, found before each epoch (DeepCluster).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [learner.watch, learner.parts],
    reads = [given_loss, outputs, parameters, ranks, sample_indices]
)]
impl Hook for DeepCluster {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_temperature("temperature", config.temperature)?;
        if !(1..=1000).contains(&config.rounds) {
            bail!("`rounds` is from 1 to 1000, found {}", config.rounds);
        }
        check_plan(setup, 1)?;
        let plan = setup.plan()?;
        let samples = plan.as_ref().and_then(|plan| plan.phase(Phase::Train));
        let name = setup.name();
        Ok(DeepCluster {
            loss: losses::Clusters::new(config.temperature),
            prototypes: Prototypes::new(&config.prototypes, setup)?,
            embeddings: ModuleOutputs::new(&config.embeddings, setup)?,
            rounds: config.rounds as usize,
            seed: setup.seed(),
            is_resumed: setup.is_resumed(),
            samples: samples.map_or(0, |phase| phase.samples),
            bank: format!("{name}.bank"),
            clusters: format!("{name}.clusters"),
            learner: Learner::alone(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.prototypes.check(task)?;
        // Dividing directions by their lengths again would change their last bits.
        if self.is_resumed {
            return Ok(());
        }
        self.prototypes.normalise(task)
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.cluster(task)?;
        }
        Ok(())
    }

    fn before_iter(&mut self, _task: &mut BeforeIter<'_>) -> Result<()> {
        self.embeddings.clear();
        Ok(())
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        self.embeddings.note(task, module)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let indices: Vec<u64> = {
            let indices = task.sample_indices()?;
            indices.values()?.map(|index| index as u64).collect()
        };
        self.learner.give(task, |batch| {
            let (task, outputs) = (batch.task, batch.outputs);
            let first = outputs.first(batch.samples)?;
            let targets = DeepCluster::targets(task, (&self.clusters, &indices), first)?;
            let targets = Rows::new(&targets, outputs.width())?;
            let value = self.loss.compute(outputs, targets, batch.gradient)?;
            // Of the first view.
            let seen = self.embeddings.rows()?.first(batch.samples)?;
            let seen = directions(seen.values(), seen.width());
            batch.parts.add(task, (indices, seen));
            Ok(value)
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.prototypes.normalise(task)?;
        self.keep(task)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.learner.parts.end_batch(task);
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, Some(f64::ln))
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    /// Three samples in two views, embeddings of four columns and two prototypes.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .validation(0)
            .views(2)
            .batch_size(3)
            .empty_model()
            .parameter(
                "prototypes.weight",
                &[2, 4],
                &[2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 4.0],
            )
            .module("directions", "unit-norm", 4)
            .module("prototypes", "linear", 2)
    }

    #[test]
    fn samples_have_clusters_from_the_second_epoch_on() -> std::result::Result<(), Failed> {
        let config = json!({"prototypes": "prototypes", "embeddings": "directions"});
        let seen = run().drive::<DeepCluster>(config.clone())?;
        assert_eq!(seen.losses().len(), 12);
        let of = |name: &'static str| seen.changes().iter().filter(move |one| one.name == name);
        assert_eq!(of("deep-cluster.bank").count(), 12);
        let published = seen.published().iter();
        let clusters = published.filter(|one| one.name == "deep-cluster.clusters");
        assert_eq!(clusters.count(), 2);
        run().check_resume::<DeepCluster>(config.clone())?;
        run().accumulate(2).check_resume::<DeepCluster>(config)
    }

    #[test]
    fn two_ranks_have_the_bank_of_one() {
        let config = json!({"prototypes": "prototypes", "embeddings": "directions"});
        let alone = run().accumulate(4).drive::<DeepCluster>(config.clone());
        let ranks = ScriptedRun::drive_ranks::<DeepCluster>(&config, 2, |_| run().accumulate(2));
        let ranks = ranks.expect("runs");
        let bank = |seen: &Seen| {
            let mut changes = seen.changes().iter().rev();
            let last = changes.find(|change| change.name == "deep-cluster.bank");
            last.expect("a bank").after.clone()
        };
        assert_eq!(bank(&ranks[0]), bank(&ranks[1]));
        assert_eq!(bank(&alone.expect("a run")).len(), bank(&ranks[0]).len());
    }
}

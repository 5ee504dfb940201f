//! A run on several ranks: processes that train together, on one machine or many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run on several ranks. In a run of one process, nothing of it has an effect but `batches`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("examples" = [{"batch_norm": "ranks"}]))]
pub struct DistributedConfig {
    /// What moves bytes between ranks.
    pub engine: Engine,
    /// What `train.accumulate` counts: the batches of an update on each rank, or those on all of them together. The
    /// latter makes the result independent of the number of ranks.
    pub batches: BatchesPer,
    /// The type that gradients have on their way to other ranks.
    pub wire: Wire,
    /// Where gradients are summed over the ranks. The sums have the same bits everywhere.
    pub gradients: GradientSums,
    /// Statistics of batch norms in training.
    pub batch_norm: BatchNormStatistics,
    /// How ranks evaluate.
    pub validation: SharedValidation,
    /// Updates between two checks that all ranks have the same parameters; 0 for none.
    pub check_every: u64,
    /// Seconds that a rank waits for the others before the run ends.
    #[schemars(range(min = 1.0, max = 864_000.0))]
    pub timeout: f64,
}

impl Default for DistributedConfig {
    fn default() -> Self {
        DistributedConfig {
            engine: Engine::default(),
            batches: BatchesPer::default(),
            wire: Wire::default(),
            gradients: GradientSums::default(),
            batch_norm: BatchNormStatistics::default(),
            validation: SharedValidation::default(),
            check_every: 100,
            timeout: 600.0,
        }
    }
}

/// What moves bytes between ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The one of the launcher that started this process, if it started more than one.
    #[default]
    Auto,
    /// The plugin `mpi`, built for the MPI of this machine.
    Mpi,
    /// The plugin `sockets`: processes on one machine, without an MPI.
    Sockets,
    /// Each process is a run of its own, whatever the launcher says.
    None,
}

/// What `train.accumulate` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchesPer {
    /// Batches of each rank in an update: more ranks make larger updates.
    #[default]
    Rank,
    /// Batches of an update, divided among the ranks.
    Update,
}

/// The type that gradients have on their way to other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Their own type.
    #[default]
    Own,
    /// `bf16`: half the bytes; results then depend on the number of ranks.
    Bf16,
}

/// Where gradients are summed over the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GradientSums {
    /// On the GPUs, if every rank has one of its own and NVIDIA's NCCL; else on the host.
    #[default]
    Auto,
    /// On the host: gradients on a GPU are copied there, and the sums back.
    Host,
    /// On the GPUs, between which NCCL moves the gradients; the run does not start where it can't.
    Nccl,
}

/// Statistics of batch norms in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNormStatistics {
    /// Each batch is normalised by its own.
    #[default]
    Batch,
    /// The batches that the ranks process at the same time are normalised together (synchronised batch norm); results
    /// then depend on the number of ranks.
    Ranks,
}

/// How ranks evaluate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SharedValidation {
    /// Each rank evaluates a part of the batches, unless a hook listens within the pass.
    #[default]
    Shared,
    /// Each rank evaluates all.
    Whole,
}

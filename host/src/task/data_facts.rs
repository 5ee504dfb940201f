//! What a run's data is, as checkpoints and comparisons have it.

use sconce_plugin_api::Phase;
use serde::{Deserialize, Serialize};

use super::Task;

/// The data of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFacts {
    /// The phase's name.
    pub phase: String,
    /// How many samples there are.
    pub samples: usize,
    /// The shape of a sample's input.
    pub sample_shape: Vec<usize>,
}

impl DataFacts {
    /// The data of all phases that have any.
    pub fn of(task: &dyn Task) -> Vec<DataFacts> {
        let data = |phase: Phase| {
            let data = task.data(phase)?;
            Some(DataFacts {
                phase: phase.name().to_owned(),
                samples: data.len(),
                sample_shape: data.sample_shape().to_vec(),
            })
        };
        Phase::ALL.into_iter().filter_map(data).collect()
    }
}

//! Properties of a run's data, as recorded in checkpoints and comparisons.

use sconce_plugin_api::Phase;
use serde::{Deserialize, Serialize};

use super::Task;

/// Properties of the data of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFacts {
    /// Name of the phase.
    pub phase: String,
    /// Number of samples.
    pub samples: usize,
    /// Shape of a sample's input.
    pub sample_shape: Vec<usize>,
}

impl DataFacts {
    /// Returns the properties of the data of all phases that have any.
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

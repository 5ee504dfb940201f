//! Sets of weights that take the place of the parameters: published by hooks, or loaded from checkpoints.

use sconce_lifecycle::Position;

use super::kept::KeptWeights;
use super::swapped::Swapped;
use crate::checkpoint::{PhaseState, SavedMetrics, WeightsId};

/// Sets that take the place of the parameters.
#[derive(Default)]
pub(in crate::run) struct Sets {
    /// The parameters that are currently swapped for a published set.
    pub(in crate::run) swapped: Option<Swapped>,
    /// The published set used in the last evaluation; none if the parameters themselves were evaluated.
    pub(in crate::run) measured: Option<String>,
    /// Weights that hooks have loaded from checkpoints.
    loaded: Vec<LoadedWeights>,
}

/// Weights that a hook has loaded from a checkpoint, in the place of a set.
#[derive(Clone)]
struct LoadedWeights {
    /// The set; `None`: the parameters.
    set: Option<String>,
    checkpoint: String,
    /// The run's updates at that time: after further ones the weights are others.
    update: u64,
    metrics: SavedMetrics,
}

impl Sets {
    /// The published set that is swapped for the parameters now.
    pub(in crate::run) fn swapped_set(&self) -> Option<String> {
        let swapped = self.swapped.as_ref()?;
        Some(swapped.set().to_owned())
    }

    /// Notes that a hook has loaded weights from a checkpoint after `update` updates: into the parameters, and, if they are
    /// averages, into the published set of these.
    pub(in crate::run) fn note_loaded(
        &mut self,
        checkpoint: &str,
        metrics: SavedMetrics,
        update: u64,
    ) {
        let loaded = LoadedWeights {
            set: None,
            checkpoint: checkpoint.to_owned(),
            update,
            metrics,
        };
        let averages = loaded.metrics.weights.set.clone().map(|set| LoadedWeights {
            set: Some(set),
            ..loaded.clone()
        });
        let all = [loaded].into_iter().chain(averages);
        for loaded in all {
            self.loaded.retain(|other| other.set != loaded.set);
            self.loaded.push(loaded);
        }
    }

    /// Forgets what was loaded: the run's state is another.
    pub(in crate::run) fn forget_loaded(&mut self) {
        self.loaded.clear();
    }

    /// What has been loaded from a checkpoint in the place of a set, and is still in use after this many updates.
    fn loaded(&self, set: Option<&str>, update: u64) -> Option<&LoadedWeights> {
        let mut loaded = self.loaded.iter();
        loaded.find(|loaded| loaded.set.as_deref() == set && loaded.update == update)
    }

    /// Identity of the weights of a set as they are now.
    pub(in crate::run) fn weights_of(&self, set: Option<String>, position: &Position) -> WeightsId {
        match self.loaded(set.as_deref(), position.update) {
            Some(loaded) => loaded.metrics.weights.clone(),
            None => WeightsId {
                epoch: position.epoch,
                iteration: position.iteration,
                update: position.update,
                set,
            },
        }
    }

    /// The weights that a run keeps if it keeps this set, and the metrics that a checkpoint has of them.
    pub(in crate::run) fn kept(
        &self,
        set: Option<String>,
        position: &Position,
    ) -> (KeptWeights, &[PhaseState]) {
        let loaded = self.loaded(set.as_deref(), position.update);
        let kept = KeptWeights {
            checkpoint: loaded.map(|loaded| loaded.checkpoint.clone()),
            weights: self.weights_of(set, position),
        };
        (kept, loaded.map_or(&[], |loaded| &loaded.metrics.phases))
    }
}

//! State of a run on several ranks.

use std::collections::HashMap;

use sconce_lifecycle::{Position, Ranked, Stopping};
use sconce_plugin_api::Point;

use super::settings::Settings;
use crate::manifest::{BatchNormStatistics, BatchesPer, DistributedConfig, SharedValidation};
use crate::run::sums::batch_sums::BatchSums;
use crate::team::{Summation, Team};

/// State of a run on several ranks.
pub(in crate::run) struct Ranks {
    pub(in crate::run) team: Team,
    pub(in crate::run) config: DistributedConfig,
    pub(in crate::run) summation: Summation,
    /// What this rank has measured of the update or the evaluation in progress.
    pub(in crate::run) measured: Vec<BatchSums>,
    /// The evaluation whose batches are shared, if one is in progress.
    pub(in crate::run) evaluation: Option<PartEvaluation>,
    /// Settings that all ranks have.
    pub(in crate::run) agreed: Settings,
    /// Whether all ranks stop after this iteration, or this epoch.
    pub(in crate::run) stop: Option<AgreedStop>,
    /// Counters at the start of the update in progress.
    pub(in crate::run) update_start: UpdateStart,
    /// States of hooks that differ between ranks, for the checkpoint being saved.
    pub(in crate::run) states: HashMap<String, Vec<Option<Vec<u8>>>>,
    /// Hooks on all ranks that are off on all of them.
    pub(in crate::run) off: Vec<String>,
    /// Updates at the last check that all ranks have the same parameters.
    pub(in crate::run) checked: u64,
}

/// A stop that all ranks know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum AgreedStop {
    AfterEpoch,
    Now,
}

/// A rank's part of an evaluation.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct PartEvaluation {
    /// Batches of the whole evaluation.
    pub(in crate::run) batches: u64,
    /// Indices of this rank's batches that are not measured yet, the next one last.
    pub(in crate::run) own: Vec<u64>,
    /// How often results have been shared.
    pub(in crate::run) shared: u64,
}

/// Counters at the start of an update.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct UpdateStart {
    iteration: u64,
    rounds: u64,
    samples: u64,
}

impl UpdateStart {
    pub(in crate::run) fn of(position: &Position) -> UpdateStart {
        UpdateStart {
            iteration: position.iteration,
            rounds: position.rounds,
            samples: position.samples,
        }
    }

    /// Sets the counters back to the update's start.
    pub(in crate::run) fn restore(self, position: &mut Position) {
        position.iteration = self.iteration;
        position.rounds = self.rounds;
        position.samples = self.samples;
    }
}

impl Ranks {
    pub(in crate::run) fn new(
        team: Team,
        config: DistributedConfig,
        summation: Summation,
    ) -> Ranks {
        Ranks {
            summation,
            team,
            config,
            measured: Vec::new(),
            evaluation: None,
            agreed: Settings::default(),
            stop: None,
            update_start: UpdateStart::default(),
            states: HashMap::new(),
            off: Vec::new(),
            checked: 0,
        }
    }

    /// This process among the others.
    pub(in crate::run) fn ranked(&self) -> Ranked {
        Ranked {
            rank: self.team.rank() as u64,
            size: self.team.size() as u64,
        }
    }

    /// Whether all ranks stop.
    pub(in crate::run) fn stopping(&self) -> Stopping {
        match self.stop {
            None => Stopping::No,
            Some(AgreedStop::AfterEpoch) => Stopping::AfterEpoch,
            Some(AgreedStop::Now) => Stopping::Now,
        }
    }

    /// By how much the manifest's number of batches per update is multiplied.
    pub(in crate::run) fn batches_factor(&self) -> u64 {
        match self.config.batches {
            BatchesPer::Rank => self.team.size() as u64,
            BatchesPer::Update => 1,
        }
    }

    /// Whether batch norms use the statistics of all ranks.
    pub(in crate::run) fn synchronises_batch_norm(&self) -> bool {
        self.config.batch_norm == BatchNormStatistics::Ranks
    }

    /// Whether evaluations are shared, unless a hook listens within them.
    pub(in crate::run) fn shares_evaluations(&self) -> bool {
        self.config.validation == SharedValidation::Shared
    }
}

/// Whether ranks may be at different batches at a mount point.
pub(in crate::run) fn is_within_batch(point: Point) -> bool {
    matches!(
        point,
        Point::BeforeIter
            | Point::AfterForward
            | Point::AfterLoss
            | Point::AfterBackward
            | Point::BeforeUpdate
            | Point::AfterUpdate
            | Point::AfterIter
            | Point::ModuleForward
            | Point::ModuleBackward
    )
}

//! State of a run on several ranks.

use std::collections::HashMap;

use sconce_lifecycle::{Position, Ranked};

use super::measured::BatchSums;
use super::settings::Settings;
use crate::manifest::{BatchNormStatistics, BatchesPer, DistributedConfig, SharedValidation};
use crate::team::{Summation, Team};

/// State of a run on several ranks.
pub(super) struct Ranks {
    pub(super) team: Team,
    pub(super) config: DistributedConfig,
    pub(super) summation: Summation,
    /// What this rank has measured of the update or the evaluation in progress.
    pub(super) measured: Vec<BatchSums>,
    /// The evaluation whose batches are shared, if one is in progress.
    pub(super) evaluation: Option<PartEvaluation>,
    /// Settings that all ranks have.
    pub(super) agreed: Settings,
    /// Whether all ranks stop after this iteration, or this epoch.
    pub(super) stop: Option<AgreedStop>,
    /// Counters at the start of the update in progress.
    pub(super) update_start: UpdateStart,
    /// States of hooks that differ between ranks, for the checkpoint being saved.
    pub(super) states: HashMap<String, Vec<Option<Vec<u8>>>>,
    /// Hooks on all ranks that are off on all of them.
    pub(super) off: Vec<String>,
    /// Updates at the last check that all ranks have the same parameters.
    pub(super) checked: u64,
}

/// A stop that all ranks know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgreedStop {
    AfterEpoch,
    Now,
}

/// A rank's part of an evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct PartEvaluation {
    /// Batches of the whole evaluation.
    pub(super) batches: u64,
    /// Indices of this rank's batches that are not measured yet, the next one last.
    pub(super) own: Vec<u64>,
    /// How often results have been shared.
    pub(super) shared: u64,
}

/// Counters at the start of an update.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpdateStart {
    iteration: u64,
    rounds: u64,
    samples: u64,
}

impl UpdateStart {
    pub(super) fn of(position: &Position) -> UpdateStart {
        UpdateStart {
            iteration: position.iteration,
            rounds: position.rounds,
            samples: position.samples,
        }
    }

    /// Sets the counters back to the update's start.
    pub(super) fn restore(self, position: &mut Position) {
        position.iteration = self.iteration;
        position.rounds = self.rounds;
        position.samples = self.samples;
    }
}

impl Ranks {
    pub(super) fn new(team: Team, config: DistributedConfig, summation: Summation) -> Ranks {
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
    pub(super) fn ranked(&self) -> Ranked {
        Ranked {
            rank: self.team.rank() as u64,
            size: self.team.size() as u64,
        }
    }

    /// By how much the manifest's number of batches per update is multiplied.
    pub(super) fn batches_factor(&self) -> u64 {
        match self.config.batches {
            BatchesPer::Rank => self.team.size() as u64,
            BatchesPer::Update => 1,
        }
    }

    /// Whether batch norms use the statistics of all ranks.
    pub(super) fn synchronises_batch_norm(&self) -> bool {
        self.config.batch_norm == BatchNormStatistics::Ranks
    }

    /// Whether evaluations are shared, unless a hook listens within them.
    pub(super) fn shares_evaluations(&self) -> bool {
        self.config.validation == SharedValidation::Shared
    }
}

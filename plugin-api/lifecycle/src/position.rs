//! Position of a run: its counters, its stage, and the pass in progress.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Round;
use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::{TextAbi, ViewAbi};

/// Position of a run. Counters count what is finished, from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// Phase whose data is being passed over; training outside of passes.
    pub phase: Phase,
    /// Training epochs finished.
    pub epoch: u64,
    /// Training epochs planned.
    pub epochs: u64,
    /// Training batches finished by this rank.
    pub iteration: u64,
    /// Training batches finished by all ranks: the number of the next one in the order of one process.
    pub number: u64,
    /// Optimizer steps finished.
    pub update: u64,
    /// Training samples seen by all ranks.
    pub samples: u64,
    /// Validations finished since the epoch's start.
    pub ordinal: u64,
    /// Iterations that were finished when the last validation ended; 0 without any.
    pub validated: u64,
    /// The pass over a phase's data in progress, or the last one.
    pub pass: PassCounters,
    /// The validation or test in progress.
    pub evaluation: EvaluationState,
    /// The next step of the training, as stored in checkpoints.
    pub stage: TrainingStage,
    /// Batches finished in the training epoch in progress, by all ranks.
    pub trained: u64,
    /// Rounds finished in the training epoch in progress: with one rank, as many as batches.
    pub rounds: u64,
    /// The current or last round of the training.
    pub round: Round,
    /// Counters at the start of the training epoch in progress; `None` if `before_epoch` has not been called for it.
    pub begun: Option<EpochStart>,
    /// Whether `before_epoch` is being called for an epoch that began before a resume or a rollback.
    pub is_reopening: bool,
    /// Batches of the update in progress, or of the last one, within the training epoch.
    pub update_batches: Range<u64>,
    /// Completeness of the state, if the run failed now.
    pub consistency: Consistency,
}

/// Counters of a pass over a phase's data, and its last batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassCounters {
    /// Batches finished.
    pub batch: u64,
    /// Batches of the whole pass.
    pub batches: u64,
    /// Samples of the current or last batch; 0 before the first and after the end of the pass.
    pub batch_size: u64,
    /// Loss of the current or last batch, if it has been computed and read.
    pub loss: Option<f64>,
    /// Whether that loss has been computed on a device but not read yet.
    pub loss_waits: bool,
    /// Whether the current or last training batch is the last one of an update.
    pub updates: bool,
}

/// State of a validation or test.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is set and cleared at its own point"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvaluationState {
    /// Whether its pass over the data is in progress: complete checkpoints wait for its end.
    pub is_under_way: bool,
    /// Whether it is the validation before the first epoch.
    pub is_initial: bool,
    /// Whether a hook requested it.
    pub is_requested: bool,
    /// Whether it is finished but not yet counted in the epoch's ordinal.
    pub is_uncounted: bool,
    /// The training pass that it interrupts.
    pub enclosing: Option<PassCounters>,
}

/// Counters with which `before_epoch` was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochStart {
    /// Training batches finished.
    pub iteration: u64,
    /// Optimizer steps finished.
    pub update: u64,
    /// Training samples seen.
    pub samples: u64,
}

/// Next step of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainingStage {
    /// Validate before the first epoch if configured; then as `epoch`.
    #[default]
    Start,
    /// Train the epoch, after the batches that are done.
    Epoch,
    /// Validate if due; the epoch before it is finished.
    Validation,
    /// End the cycle: the validation is finished too.
    Cycle,
}

/// Completeness of a run's state: in which case a checkpoint of a failed run is useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Between two iterations: complete.
    Between,
    /// Within an iteration that has not changed any parameter: hooks and metrics have seen a part of it.
    Batch,
    /// The parameters are stepped; only the counters are not updated yet.
    Stepped,
    /// Anything else: not suitable for resuming.
    Torn,
}

impl Position {
    /// The position before a run of this many epochs.
    pub fn start(epochs: u64) -> Position {
        Position {
            phase: Phase::Train,
            epoch: 0,
            epochs,
            iteration: 0,
            number: 0,
            update: 0,
            samples: 0,
            ordinal: 0,
            validated: 0,
            pass: PassCounters::default(),
            evaluation: EvaluationState::default(),
            stage: TrainingStage::Start,
            trained: 0,
            rounds: 0,
            round: Round::default(),
            begun: None,
            is_reopening: false,
            update_batches: 0..0,
            consistency: Consistency::Torn,
        }
    }

    /// Shows the position in the view that hooks are given.
    #[inline]
    pub fn show_in(&self, view: &mut ViewAbi) {
        view.stream = TextAbi::new(self.phase.name());
        view.epoch = self.epoch;
        view.epochs = self.epochs;
        view.iteration = self.iteration;
        view.update = self.update;
        view.batch = self.pass.batch;
        view.batches = self.pass.batches;
        view.samples = self.samples;
        view.batch_size = self.pass.batch_size;
        view.ordinal = self.ordinal;
        view.loss = self.pass.loss.unwrap_or(f64::NAN);
        view.flags = self.flags();
        view.phase = self.phase.number();
    }

    #[inline]
    fn flags(&self) -> u64 {
        let flags = [
            (self.pass.loss.is_some(), ViewAbi::HAS_LOSS),
            (self.pass.loss_waits, ViewAbi::LOSS_WAITS),
            (self.pass.updates, ViewAbi::UPDATES),
            (self.evaluation.is_initial, ViewAbi::INITIAL),
        ];
        (flags.iter()).fold(0, |all, &(is_set, flag)| all | (u64::from(is_set) * flag))
    }

    /// The counters with which an epoch starts that starts now.
    pub fn epoch_start(&self) -> EpochStart {
        EpochStart {
            iteration: self.iteration,
            update: self.update,
            samples: self.samples,
        }
    }

    /// The training pass in progress, also while an evaluation interrupts it.
    pub fn training_pass(&self) -> PassCounters {
        self.evaluation.enclosing.unwrap_or(self.pass)
    }

    /// Counts the current round of the training as finished.
    pub fn count_iteration(&mut self) {
        self.iteration += 1;
        self.pass.batch += 1;
        self.rounds = self.pass.batch;
        self.trained += self.round.finishes;
        self.number += self.round.finishes;
        self.round.number = self.number;
        self.samples += self.round.samples;
    }

    /// Whether a multiple of `interval` iterations has been reached since the last validation.
    pub(super) fn passed_multiple(&self, interval: u64) -> bool {
        let interval = interval.max(1);
        self.iteration / interval > self.validated / interval
    }

    /// Starts a pass of this many batches.
    pub(super) fn begin_pass(&mut self, batches: u64) {
        self.pass = PassCounters {
            batches,
            ..PassCounters::default()
        };
    }

    /// Counts the training epoch as finished: a validation may follow.
    pub(super) fn finish_epoch(&mut self) {
        self.epoch += 1;
        self.trained = 0;
        self.rounds = 0;
        self.begun = None;
        self.update_batches = 0..0;
        self.stage = TrainingStage::Validation;
    }

    /// From here on, checkpoints record that this evaluation is finished.
    pub(super) fn count_evaluation(&mut self) {
        self.evaluation.is_under_way = false;
        if self.phase != Phase::Val {
            return;
        }
        self.validated = self.iteration;
        let is_initial = self.evaluation.is_initial;
        self.evaluation.is_uncounted = !is_initial;
        self.stage = match self.stage {
            TrainingStage::Start if is_initial => TrainingStage::Epoch,
            // A validation requested by a hook in the middle of an epoch is not a stage of the cycle.
            TrainingStage::Validation if !self.evaluation.is_requested => TrainingStage::Cycle,
            other => other,
        };
    }

    /// Shows the counters as they were when the epoch began.
    pub fn show_start(&mut self, start: EpochStart) {
        self.iteration = start.iteration;
        self.update = start.update;
        self.samples = start.samples;
        self.pass.batch = 0;
        self.ordinal = 0;
    }
}

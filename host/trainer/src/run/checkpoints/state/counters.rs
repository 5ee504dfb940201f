//! Counters and passes of a run in its checkpoints.

use sconce_base::exact::Exact;
use sconce_lifecycle::{EpochStart, PassCounters, Position};

use crate::checkpoint::{CheckpointHeader, PassState, Progress};

/// The counters for a checkpoint. `validates_within`: whether the run validates within epochs.
pub(in crate::run) fn progress(position: &Position, validates_within: bool) -> Progress {
    Progress {
        epoch: position.epoch,
        iteration: position.iteration,
        update: position.update,
        samples: position.samples,
        batch: position.trained,
        ordinal: position.ordinal + u64::from(position.evaluation.is_uncounted),
        stage: position.stage,
        number: (position.number != position.iteration).then_some(position.number),
        validated: validates_within.then_some(position.validated),
        rounds: (position.rounds != position.trained).then_some(position.rounds),
    }
}

/// Restores the counters and the stage; `rounds` of the epoch are finished.
pub(in crate::run) fn restore_counters(
    position: &mut Position,
    header: &CheckpointHeader,
    rounds: u64,
) {
    let progress = &header.progress;
    position.epoch = progress.epoch;
    position.iteration = progress.iteration;
    position.update = progress.update;
    position.samples = progress.samples;
    position.ordinal = progress.ordinal;
    position.trained = progress.batch;
    position.validated = progress.validated.unwrap_or(progress.iteration);
    position.rounds = rounds;
    position.pass.batch = rounds;
    position.number = progress.number.unwrap_or(progress.iteration);
    position.round.number = position.number;
    position.stage = progress.stage;
}

/// What a checkpoint stores of a training pass, beside its counters; `None` as at its beginning.
pub(in crate::run) fn pass_state(
    pass: PassCounters,
    begun: Option<EpochStart>,
) -> Option<PassState> {
    let state = PassState {
        loss: pass.loss.map(Exact),
        batch_size: pass.batch_size,
        updates: pass.updates,
        begun,
    };
    (state != PassState::default()).then_some(state)
}

/// Restores what hooks see of the training pass in progress.
pub(in crate::run) fn restore_pass(position: &mut Position, state: Option<&PassState>) {
    let state = state.cloned().unwrap_or_default();
    position.pass.loss = state.loss.map(|loss| loss.0);
    position.pass.loss_waits = false;
    position.pass.updates = state.updates;
    position.pass.batch_size = state.batch_size;
    position.begun = state.begun;
}

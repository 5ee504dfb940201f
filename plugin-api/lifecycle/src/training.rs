//! Whole runs: training cycles, and the test at the end.

use super::batches::{Shares, rounds_of, update_of};
use super::driver::{Driven, RunDriver, Stopping};
use super::evaluation::{end_pass, evaluate, validate};
use super::iteration::iteration;
use super::reopening::reopen;
use super::{Consistency, EpochBatches, EpochStart, Leave, TrainingStage};
use sconce_plugin_api::{Phase, Point};

/// Runs training and test, from `before_run` on.
///
/// # Errors
///
/// If the run fails or is interrupted.
pub fn run<R: RunDriver>(run: &mut R) -> Driven<R> {
    run.position().phase = Phase::Train;
    run.call(Point::BeforeRun)?;
    train(run)?;
    // `after_loop` may have taken its time.
    run.check_interrupt()?;
    if run.tests() {
        evaluate(run, Phase::Test, false)?;
    }
    Ok(())
}

/// Runs all epochs, or those before a stop.
fn train<R: RunDriver>(run: &mut R) -> Driven<R> {
    run.begin_training()?;
    run.position().phase = Phase::Train;
    run.call(Point::BeforeLoop)?;
    match run.resume() {
        // What had been requested when the checkpoint was saved, and is served now.
        Err(Leave::RolledBack) => {}
        resumed => resumed?,
    }
    run.position().consistency = Consistency::Between;
    begin(run)?;
    run.serve_requests()?;
    while has_more(run) {
        match cycle(run) {
            // The rest of the batch that a hook has rolled back from is dropped.
            Err(Leave::RolledBack) => run.end_batch(),
            ended => ended?,
        }
        run.serve_requests()?;
    }
    run.settle()?;
    run.call(Point::AfterLoop)
}

/// Runs the initial validation, if configured and not done yet.
fn begin<R: RunDriver>(run: &mut R) -> Driven<R> {
    if run.position().stage != TrainingStage::Start || run.stopping() != Stopping::No {
        return Ok(());
    }
    if run.validates_first() {
        validate(run, true)?;
    }
    run.position().stage = TrainingStage::Epoch;
    Ok(())
}

/// Whether there is something left to train, or to validate after a rollback or a resume.
fn has_more<R: RunDriver>(run: &mut R) -> bool {
    let position = run.position();
    let has_more = match position.stage {
        TrainingStage::Start | TrainingStage::Epoch => position.epoch < position.epochs,
        TrainingStage::Validation | TrainingStage::Cycle => true,
    };
    has_more && run.stopping() == Stopping::No
}

/// Runs a training epoch and, if due, its validation, or the rest of both after a resume or a rollback.
fn cycle<R: RunDriver>(run: &mut R) -> Driven<R> {
    begin(run)?;
    let batches = run.batches_of(Phase::Train);
    let batches = batches.unwrap_or(EpochBatches {
        samples: 0,
        size: 1,
    });
    match run.position().stage {
        TrainingStage::Start | TrainingStage::Epoch => epoch(run, batches)?,
        TrainingStage::Validation | TrainingStage::Cycle => {
            // The epoch was finished before a rollback or a resume.
            let rounds = rounds_left(run, batches.count());
            let pass = &mut run.position().pass;
            pass.batch = rounds;
            pass.batches = rounds;
        }
    }
    let epoch = run.position().epoch;
    let is_due = run.validates_after(epoch) || is_validation_due(run);
    if run.position().stage == TrainingStage::Validation && is_due {
        validate(run, false)?;
        run.serve_requests()?;
    }
    run.position().stage = TrainingStage::Epoch;
    run.call(Point::AfterCycle)
}

/// Runs a pass over the training data, after the batches that are done. At its end the stage is `Validation`.
fn epoch<R: RunDriver>(run: &mut R, division: EpochBatches) -> Driven<R> {
    let batches = division.count();
    let position = run.position();
    let done = position.trained;
    // A checkpoint of an earlier version only records how much of the epoch is done.
    let begun = position.begun.or_else(|| {
        (done > 0).then(|| EpochStart {
            iteration: position.iteration.saturating_sub(done),
            ..position.epoch_start()
        })
    });
    if begun.is_none() {
        run.reset_pass(Phase::Train);
        run.position().ordinal = 0;
    }
    let pass = run.position().training_pass();
    run.begin_pass();
    let position = run.position();
    let finished = position.rounds;
    let rounds = finished.saturating_add(rounds_left(run, batches.saturating_sub(done)));
    let position = run.position();
    position.begin_pass(rounds);
    position.pass.batch = finished;
    run.show();
    let position = run.position();
    position.begun = begun.or_else(|| Some(position.epoch_start()));
    match begun {
        Some(start) => reopen(run, start, pass)?,
        None => run.call(Point::BeforeEpoch)?,
    }
    let mut data = run.open(Phase::Train, done)?;
    let mut batch = done;
    while batch < batches {
        if begins_update(run, batch, batches) && is_validation_due(run) {
            run.validate_within()?;
            run.serve_requests()?;
            if run.stopping() == Stopping::Now {
                break;
            }
        }
        batch = rest_of_update(run, &mut data, division, batch)?;
        if run.stopping() == Stopping::Now {
            break;
        }
    }
    let position = run.position();
    if position.trained >= batches {
        position.finish_epoch();
    }
    end_pass(run, Phase::Train)
}

/// Whether a validation is due by the number of iterations.
fn is_validation_due<R: RunDriver>(run: &mut R) -> bool {
    let interval = run.validation_interval();
    interval.is_some_and(|interval| run.position().passed_multiple(interval))
}

/// Whether no update is in progress before this batch of an epoch.
fn begins_update<R: RunDriver>(run: &mut R, batch: u64, batches: u64) -> bool {
    let (requested, planned) = run.accumulation();
    // A resumed run doesn't know its update yet.
    let begin = update_of(batch, batches, requested, planned).start;
    !run.position().update_batches.contains(&batch) && begin == batch
}

/// Trains the batches from `batch` to the end of its update, or until a stop. Returns the batch after the update.
fn rest_of_update<R: RunDriver>(
    run: &mut R,
    data: &mut R::Batches,
    division: EpochBatches,
    batch: u64,
) -> Driven<R, u64> {
    let batches = division.count();
    let ranked = run.ranked();
    let (requested, planned) = run.accumulation();
    let position = run.position();
    if !position.update_batches.contains(&batch) {
        position.update_batches = update_of(batch, batches, requested, planned);
    }
    let update = position.update_batches.clone();
    let number = position.number;
    let shares = Shares::new(batch..update.end, ranked);
    let after = rounds_of(batches - update.end, requested.unwrap_or(planned), ranked);
    position.pass.batches = position.pass.batch + shares.rounds() + after;
    for round in 0..shares.rounds() {
        let batch = division.micro_batch(&shares, round, &update, number);
        iteration(run, data, &batch)?;
        run.show();
        run.serve_requests()?;
        if run.stopping() == Stopping::Now {
            break;
        }
    }
    Ok(update.end)
}

/// Number of rounds of `count` further batches.
fn rounds_left<R: RunDriver>(run: &R, count: u64) -> u64 {
    let (requested, planned) = run.accumulation();
    rounds_of(count, requested.unwrap_or(planned), run.ranked())
}

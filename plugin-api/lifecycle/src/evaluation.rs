//! Passes that don't change parameters: validation and test.

use super::driver::{Driven, RunDriver};
use super::iteration::forward;
use sconce_plugin_api::{Phase, Point};

/// Validates, if there is validation data.
///
/// # Errors
///
/// If the run fails.
pub fn validate<R: RunDriver>(run: &mut R, is_initial: bool) -> Driven<R> {
    if run.batches_of(Phase::Val).is_none() {
        return Ok(());
    }
    evaluate(run, Phase::Val, is_initial)?;
    let position = run.position();
    position.ordinal += u64::from(!is_initial);
    position.evaluation.is_uncounted = false;
    Ok(())
}

/// Runs one pass over the data of `phase`, if there are any, in their natural order.
///
/// A stop requested in the meantime takes effect after the pass, so that metrics are always complete.
///
/// # Errors
///
/// If the run fails.
pub fn evaluate<R: RunDriver>(run: &mut R, phase: Phase, is_initial: bool) -> Driven<R> {
    let Some(batches) = run.batches_of(phase) else {
        return Ok(());
    };
    let position = run.position();
    let enclosing = position.pass;
    position.evaluation.enclosing = Some(enclosing);
    position.evaluation.is_initial = is_initial;
    position.evaluation.is_under_way = true;
    position.phase = phase;
    run.call(Point::BeforeLoop)?;
    run.reset_pass(phase);
    run.begin_pass();
    run.position().begin_pass(batches.count());
    run.show();
    run.call(Point::BeforeEpoch)?;
    let mut data = run.open(phase, 0)?;
    while let Some(batch) = run.next_batch(&mut data)? {
        let size = run.size_of(&batch);
        let pass = &mut run.position().pass;
        pass.batch_size = size;
        pass.loss = None;
        pass.loss_waits = false;
        run.show_batch(&batch);
        run.call(Point::BeforeIter)?;
        if !run.take_skip_batch() {
            forward(run, &batch, phase)?;
        }
        run.position().pass.batch += 1;
        run.call(Point::AfterIter)?;
        run.end_batch();
        run.show();
    }
    run.share_evaluated()?;
    end_pass(run, phase)?;
    run.note_evaluated();
    run.position().count_evaluation();
    run.call(Point::AfterLoop)?;
    run.save_delayed()?;
    let position = run.position();
    position.evaluation.is_initial = false;
    position.evaluation.enclosing = None;
    position.phase = Phase::Train;
    position.pass = enclosing;
    Ok(())
}

/// Ends a pass over a phase's data: calls `after_epoch`, then `epoch_profile`.
pub(super) fn end_pass<R: RunDriver>(run: &mut R, phase: Phase) -> Driven<R> {
    run.position().pass.batch_size = 0;
    run.end_measuring(phase);
    run.call(Point::AfterEpoch)?;
    run.call_profile(phase)
}

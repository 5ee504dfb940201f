//! One training iteration: forward pass, loss, backward pass, and an update if one is due.

use super::driver::{Driven, RunDriver};
use super::{Consistency, MicroBatch};
use sconce_plugin_api::{Phase, Point};

/// Runs one training batch.
pub(super) fn iteration<R: RunDriver>(
    run: &mut R,
    batches: &mut R::Batches,
    micro_batch: &MicroBatch,
) -> Driven<R> {
    let pass = &mut run.position().pass;
    pass.batch_size = micro_batch.range.len() as u64;
    pass.loss = None;
    pass.loss_waits = false;
    pass.updates = micro_batch.updates;
    run.position().round = micro_batch.round;
    let Some(batch) = run.next_batch_or_reopen(batches, micro_batch)? else {
        return Ok(());
    };
    run.show_batch(&batch);
    run.call(Point::BeforeIter)?;
    run.check_training_batch()?;
    run.position().consistency = Consistency::Batch;
    if !run.take_skip_batch() {
        let _recording = run.record();
        let loss = forward(run, &batch, Phase::Train)?;
        run.backward(&batch, loss, micro_batch.fraction)?;
        run.call(Point::AfterBackward)?;
        // From here on, the batch is part of its update.
        run.position().consistency = Consistency::Torn;
        run.accumulate()?;
    }
    if micro_batch.updates {
        update(run)?;
    }
    run.position().count_iteration();
    run.advance();
    run.position().consistency = Consistency::Between;
    run.call(Point::AfterIter)?;
    run.end_batch();
    Ok(())
}

/// Computes outputs, loss and metrics of a batch, in any phase.
pub(super) fn forward<R: RunDriver>(
    run: &mut R,
    batch: &R::Batch,
    phase: Phase,
) -> Driven<R, R::Loss> {
    let outputs = run.forward(batch, phase)?;
    run.call(Point::AfterForward)?;
    let loss = run.measure(batch, &outputs, phase)?;
    run.call(Point::AfterLoss)?;
    Ok(loss)
}

/// Steps the parameters by the accumulated gradients of all ranks, if there are any and no hook skips the update.
fn update<R: RunDriver>(run: &mut R) -> Driven<R> {
    if !run.show_accumulated()? {
        run.take_skip_update()?;
        return Ok(());
    }
    run.position().consistency = Consistency::Torn;
    run.call(Point::BeforeUpdate)?;
    let is_skipped = run.take_skip_update()?;
    if !run.step(is_skipped)? {
        return Ok(());
    }
    let position = run.position();
    position.consistency = Consistency::Stepped;
    position.update += 1;
    run.call(Point::AfterUpdate)
}

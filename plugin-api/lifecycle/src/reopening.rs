//! Continues an epoch that began before a resume or a rollback.
//!
//! `before_epoch` is called again, since hooks prepare there what they need during the epoch. Changes that
//! they make to the run there, and requests, already took effect when the epoch began and are part of the
//! checkpoint: otherwise a schedule that sets a rate would show the rate of the next update too early, and a
//! hook that halves a rate would halve it twice. For the same reason hooks see the counters at which the
//! epoch began, with which some compare later iterations.

use super::driver::{Driven, RunDriver};
use super::{EpochStart, PassCounters};
use sconce_plugin_api::Point;

/// Calls `before_epoch` for an epoch that began at `start`. It changes nothing but the hooks' internal state and the
/// modules at which they are called. Afterwards hooks see the last batch of `pass` again.
pub(super) fn reopen<R: RunDriver>(
    run: &mut R,
    start: EpochStart,
    pass: PassCounters,
) -> Driven<R> {
    let snapshot = run.snapshot()?;
    let position = run.position();
    let (now, ordinal, batch) = (position.epoch_start(), position.ordinal, position.rounds);
    position.show_start(start);
    position.is_reopening = true;
    let called = run.call(Point::BeforeEpoch);
    // Also restored if a hook failed, since a checkpoint of the failed run is saved next.
    let position = run.position();
    position.is_reopening = false;
    position.show_start(now);
    position.ordinal = ordinal;
    position.pass = PassCounters {
        batch,
        batches: position.pass.batches,
        ..pass
    };
    let restored = run.restore_snapshot(snapshot);
    called?;
    restored
}

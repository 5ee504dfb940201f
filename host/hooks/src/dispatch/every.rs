//! The filter `every`: calls a hook only in some iterations, updates or epochs.

use sconce_lifecycle::Position;
use sconce_plugin_api::{Phase, Point};

use super::points::is_outside;
use sconce_manifest::{Every, Unit};

/// Whether a hook with this filter is called at this point of the run.
pub(super) fn is_due(every: Every, point: Point, position: &Position) -> bool {
    match number(every.unit, point, position) {
        Some(number) => number % every.count.max(1) == every.offset % every.count.max(1),
        None => true,
    }
}

/// Number, from 1, of the current unit; `None` outside of one.
fn number(unit: Unit, point: Point, position: &Position) -> Option<u64> {
    let is_training = position.phase == Phase::Train;
    match unit {
        Unit::Iterations if is_training => iteration(point, position.iteration),
        Unit::Iterations => iteration(point, position.pass.batch),
        Unit::Updates if is_training => update(point, position),
        Unit::Updates => None,
        Unit::Epochs => epoch(point, position, is_training),
    }
}

/// Number of the current batch, given how many are finished; at `after_iter` the current one counts
/// as finished.
fn iteration(point: Point, finished: u64) -> Option<u64> {
    match point {
        Point::AfterIter => Some(finished),
        Point::BeforeIter
        | Point::AfterForward
        | Point::AfterLoss
        | Point::AfterBackward
        | Point::ModuleForward
        | Point::ModuleBackward
        | Point::BeforeUpdate
        | Point::AfterUpdate => Some(finished + 1),
        _ => None,
    }
}

fn update(point: Point, position: &Position) -> Option<u64> {
    let is_stepped = match point {
        Point::AfterUpdate => true,
        Point::AfterIter => position.pass.updates,
        _ => false,
    };
    iteration(point, position.iteration).map(|_| position.update + u64::from(!is_stepped))
}

fn epoch(point: Point, position: &Position, is_training: bool) -> Option<u64> {
    let is_validation = position.phase == Phase::Val;
    let is_initial = position.evaluation.is_initial;
    match point {
        _ if is_outside(point) => None,
        _ if is_validation && !is_initial => Some(position.epoch),
        Point::AfterEpoch | Point::EpochProfile | Point::AfterCycle if is_training => {
            // An epoch cut short by a stop is not counted as finished, but it is the current one.
            Some(position.epoch + u64::from(position.pass.batch != position.pass.batches))
        }
        Point::BeforeLoop | Point::AfterLoop => None,
        _ if is_training => Some(position.epoch + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sconce_lifecycle::PassCounters;

    use super::*;

    fn every(unit: Unit, count: u64, offset: u64) -> Every {
        Every {
            unit,
            count,
            offset,
        }
    }

    fn at(phase: Phase, epoch: u64, iteration: u64, update: u64, batch: u64) -> Position {
        Position {
            phase,
            epoch,
            iteration,
            update,
            pass: PassCounters {
                batch,
                batches: 3,
                ..PassCounters::default()
            },
            ..Position::start(3)
        }
    }

    #[test]
    fn all_points_of_an_iteration_are_called_together() {
        let third = every(Unit::Iterations, 3, 0);
        for (finished, due) in [(0, false), (1, false), (2, true), (3, false), (5, true)] {
            let position = at(Phase::Train, 0, finished, 0, 0);
            assert_eq!(is_due(third, Point::BeforeIter, &position), due);
            assert_eq!(is_due(third, Point::AfterUpdate, &position), due);
            let after = at(Phase::Train, 0, finished + 1, 0, 0);
            assert_eq!(is_due(third, Point::AfterIter, &after), due);
        }
        let first = every(Unit::Iterations, 3, 1);
        assert!(is_due(
            first,
            Point::BeforeIter,
            &at(Phase::Train, 0, 0, 0, 0)
        ));
        assert!(is_due(
            third,
            Point::AfterEpoch,
            &at(Phase::Train, 0, 1, 0, 1)
        ));
        assert!(is_due(third, Point::AfterIter, &at(Phase::Val, 1, 7, 7, 3)));
    }

    #[test]
    fn the_batches_of_an_update_are_called_together() {
        let second = every(Unit::Updates, 2, 0);
        let mut position = at(Phase::Train, 0, 2, 1, 0);
        assert!(is_due(second, Point::AfterLoss, &position));
        assert!(
            is_due(second, Point::AfterIter, &position),
            "a batch without a step"
        );
        position.update = 2;
        assert!(is_due(second, Point::AfterUpdate, &position));
        position.pass.updates = true;
        assert!(
            is_due(second, Point::AfterIter, &position),
            "the batch with the step"
        );
        position.pass.updates = false;
        assert!(!is_due(second, Point::BeforeIter, &position));
    }

    #[test]
    fn an_epoch_goes_with_its_validation() {
        let second = every(Unit::Epochs, 2, 0);
        assert!(!is_due(
            second,
            Point::BeforeEpoch,
            &at(Phase::Train, 0, 0, 0, 0)
        ));
        assert!(is_due(
            second,
            Point::AfterIter,
            &at(Phase::Train, 1, 4, 4, 1)
        ));
        for point in [Point::AfterEpoch, Point::AfterCycle] {
            assert!(is_due(second, point, &at(Phase::Train, 2, 6, 6, 3)));
            assert!(
                is_due(second, point, &at(Phase::Train, 1, 5, 5, 2)),
                "broken off"
            );
            assert!(!is_due(second, point, &at(Phase::Train, 3, 9, 9, 3)));
        }
        assert!(is_due(
            second,
            Point::AfterIter,
            &at(Phase::Val, 2, 6, 6, 1)
        ));
        assert!(!is_due(
            second,
            Point::BeforeLoop,
            &at(Phase::Val, 1, 3, 3, 3)
        ));
        assert!(is_due(
            second,
            Point::BeforeRun,
            &at(Phase::Train, 0, 0, 0, 0)
        ));
        assert!(is_due(
            second,
            Point::AfterEpoch,
            &at(Phase::Test, 3, 9, 9, 1)
        ));
    }
}

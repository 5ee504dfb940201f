//! The filter `every`: calls a hook only in some iterations, updates or epochs.

use sconce_plugin_api::lifecycle::Position;
use sconce_plugin_api::{Phase, Point};

use super::points::is_outside;

/// Filter that calls a hook in every n-th iteration, update or epoch: in those whose number,
/// counted from 1, minus `offset` is a multiple of n.
///
/// It applies to the points within an iteration, the batches of an update, or an epoch; at all
/// other points the hook is always called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    /// Unit that is counted.
    pub unit: Unit,
    /// Interval n; at least 1.
    pub count: u64,
    /// Offset: 0 selects the n-th, the 2n-th and so on.
    pub offset: u64,
}

/// Unit counted by [`Every`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Batches: of the whole training, or of the current pass in other phases.
    Iterations,
    /// Optimizer steps; a hook is called for all of a step's batches or for none.
    Updates,
    /// Training epochs, each including its validation.
    Epochs,
}

impl Every {
    /// Whether a hook with this filter is called at this point of the run.
    pub(super) fn is_due(self, point: Point, position: &Position) -> bool {
        match self.number(point, position) {
            Some(number) => number % self.count.max(1) == self.offset % self.count.max(1),
            None => true,
        }
    }

    /// Number, from 1, of the current unit; `None` outside of one.
    fn number(self, point: Point, position: &Position) -> Option<u64> {
        let is_training = position.phase == Phase::Train;
        match self.unit {
            Unit::Iterations if is_training => iteration(point, position.iteration),
            Unit::Iterations => iteration(point, position.pass.batch),
            Unit::Updates if is_training => update(point, position),
            Unit::Updates => None,
            Unit::Epochs => epoch(point, position, is_training),
        }
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
    use sconce_plugin_api::lifecycle::PassCounters;

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
            assert_eq!(third.is_due(Point::BeforeIter, &position), due);
            assert_eq!(third.is_due(Point::AfterUpdate, &position), due);
            let after = at(Phase::Train, 0, finished + 1, 0, 0);
            assert_eq!(third.is_due(Point::AfterIter, &after), due);
        }
        let first = every(Unit::Iterations, 3, 1);
        assert!(first.is_due(Point::BeforeIter, &at(Phase::Train, 0, 0, 0, 0)));
        assert!(third.is_due(Point::AfterEpoch, &at(Phase::Train, 0, 1, 0, 1)));
        assert!(third.is_due(Point::AfterIter, &at(Phase::Val, 1, 7, 7, 3)));
    }

    #[test]
    fn the_batches_of_an_update_are_called_together() {
        let second = every(Unit::Updates, 2, 0);
        let mut position = at(Phase::Train, 0, 2, 1, 0);
        assert!(second.is_due(Point::AfterLoss, &position));
        assert!(
            second.is_due(Point::AfterIter, &position),
            "a batch without a step"
        );
        position.update = 2;
        assert!(second.is_due(Point::AfterUpdate, &position));
        position.pass.updates = true;
        assert!(
            second.is_due(Point::AfterIter, &position),
            "the batch with the step"
        );
        position.pass.updates = false;
        assert!(!second.is_due(Point::BeforeIter, &position));
    }

    #[test]
    fn an_epoch_goes_with_its_validation() {
        let second = every(Unit::Epochs, 2, 0);
        assert!(!second.is_due(Point::BeforeEpoch, &at(Phase::Train, 0, 0, 0, 0)));
        assert!(second.is_due(Point::AfterIter, &at(Phase::Train, 1, 4, 4, 1)));
        for point in [Point::AfterEpoch, Point::AfterCycle] {
            assert!(second.is_due(point, &at(Phase::Train, 2, 6, 6, 3)));
            assert!(
                second.is_due(point, &at(Phase::Train, 1, 5, 5, 2)),
                "broken off"
            );
            assert!(!second.is_due(point, &at(Phase::Train, 3, 9, 9, 3)));
        }
        assert!(second.is_due(Point::AfterIter, &at(Phase::Val, 2, 6, 6, 1)));
        assert!(!second.is_due(Point::BeforeLoop, &at(Phase::Val, 1, 3, 3, 3)));
        assert!(second.is_due(Point::BeforeRun, &at(Phase::Train, 0, 0, 0, 0)));
        assert!(second.is_due(Point::AfterEpoch, &at(Phase::Test, 3, 9, 9, 1)));
    }
}

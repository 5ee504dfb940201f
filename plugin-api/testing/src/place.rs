//! A point in a scripted run.

use std::fmt;

use sconce_lifecycle::Position;
use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point};

/// A call of the hook: the mount point and the counters at that time.
///
/// The counters are those that the hook saw: they count what is finished, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CallPosition {
    /// The mount point.
    pub point: Point,
    /// The phase.
    pub phase: Phase,
    /// [`TaskView::epoch`](sconce_plugin_api::TaskView::epoch): training epochs finished.
    pub epoch: u64,
    /// [`TaskView::iteration`](sconce_plugin_api::TaskView::iteration): training batches finished.
    pub iteration: u64,
    /// [`TaskView::update`](sconce_plugin_api::TaskView::update): optimizer steps finished.
    pub update: u64,
    /// [`TaskView::batch`](sconce_plugin_api::TaskView::batch): batches of the current pass finished.
    pub batch: u64,
}

impl CallPosition {
    pub(super) fn of(point: Point, view: &ViewAbi) -> CallPosition {
        CallPosition {
            point,
            phase: Phase::from_number(view.phase).unwrap_or(Phase::Train),
            epoch: view.epoch,
            iteration: view.iteration,
            update: view.update,
            batch: view.batch,
        }
    }

    pub(super) fn at(point: Point, position: &Position) -> CallPosition {
        CallPosition {
            point,
            phase: position.phase,
            epoch: position.epoch,
            iteration: position.iteration,
            update: position.update,
            batch: position.pass.batch,
        }
    }

    /// Whether an interrupted and resumed run may have this call more often than an uninterrupted one.
    pub(super) fn is_of_resuming(&self) -> bool {
        let begins = self.point == Point::BeforeLoop && self.phase == Phase::Train;
        let others = [
            Point::BeforeRun,
            Point::AfterRun,
            Point::BeforeSaveCheckpoint,
            Point::AfterSaveCheckpoint,
            Point::AfterLoadCheckpoint,
        ];
        begins || others.contains(&self.point)
    }
}

impl fmt::Display for CallPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}) behind epoch {}, iteration {}",
            self.point, self.phase, self.epoch, self.iteration
        )
    }
}

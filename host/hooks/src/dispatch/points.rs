//! Kinds of mount points.

use sconce_plugin_api::Point;

/// Points at which there are the outputs of a batch.
pub(super) const WITH_OUTPUTS: [Point; 10] = [
    Point::AfterForward,
    Point::AfterLoss,
    Point::ModuleBackward,
    Point::AfterBackward,
    Point::BeforeUpdate,
    Point::AfterUpdate,
    Point::AfterIter,
    Point::BeforeSaveCheckpoint,
    Point::AfterSaveCheckpoint,
    Point::OnException,
];

/// Whether a point belongs to no phase, so that no filter applies.
pub(super) fn is_outside(point: Point) -> bool {
    matches!(
        point,
        Point::BeforeRun
            | Point::AfterRun
            | Point::OnException
            | Point::BeforeSaveCheckpoint
            | Point::AfterSaveCheckpoint
            | Point::AfterLoadCheckpoint
    )
}

/// Whether a point is a module's.
pub(super) fn is_module(point: Point) -> bool {
    matches!(point, Point::ModuleForward | Point::ModuleBackward)
}

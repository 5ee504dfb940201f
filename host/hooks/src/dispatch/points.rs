//! Kinds of mount points.

use sconce_plugin_api::Point;

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

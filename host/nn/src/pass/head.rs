//! What a pass wants of the layer at the model's end.

/// What is wanted of the outputs of a linear layer at the model's end: of a large vocabulary they take longer than all layers before
/// it, and more memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeadUse {
    /// All.
    #[default]
    Whole,
    /// Those of the last position.
    LastPosition,
    /// All, but only the task reads them, for its loss and metrics.
    ForLoss,
    /// The task computes them itself.
    Left,
}

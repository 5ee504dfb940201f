//! What is known of targets: the `names` of classes and columns, and the `scaling` of numbers, which is undone in predictions.

pub(super) mod names;
pub(super) mod scaling;

//! Sets of weights: published by hooks, swapped for the parameters, kept at the end.

pub(in crate::run) mod kept;
pub(in crate::run) mod sets;
pub(in crate::run) mod swap;
pub(in crate::run) mod swapped;

//! Batches of an epoch: the `order` of its samples, and the `loader`, whose threads prepare them in the background.

mod keyed_permutation;
pub(super) mod loader;
pub mod order;

//! Gradients: the tape of operations, and the backward pass over it.
//!
//! **Parts**
//! - `tape` records operations, and runs the backward pass over them; `sum` adds what several of them give to one tensor.
//! - `aside`: parameters' gradients, which bypass candle's store during that pass. `constants`: frozen parameters, which get none.
//! - `custom_gradient`: operations whose output and gradient are computed apart. `layer`: those on an input, a weight and a bias.
//!   `recompute`: blocks that are computed again.
//! - [`gradient_check`]: gradients against finite differences.
//!
//! **Flow.** An operation is recorded by `tape` as it is computed, with its constant inputs detached. The backward pass takes the
//! records in reverse; what is recomputed records again within it. A parameter's gradient is complete when the last operation
//! that has used it is done, and goes to `aside` or to who wants it then.

pub(super) mod aside;
pub(super) mod constants;
pub(super) mod custom_gradient;
pub mod gradient_check;
pub(super) mod layer;
pub(super) mod recompute;
pub(super) mod sum;
pub(super) mod tape;

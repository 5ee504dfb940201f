//! Tensors treated as constants during a pass: frozen parameters.
//!
//! While some are [held](hold), the operations of [this crate](super) see them detached, and with them every tensor
//! that depends on no other variable. So everything below the first trained parameter is outside the graph: it costs no
//! backward pass, and its activations are not kept for one. Where a tensor does depend on a variable, such as the input
//! of a module with a hook on its backward pass, nothing changes. The gradients that are computed have the same bits:
//! what is left out contributes to none of them.
//!
//! Between candle's own operations nothing can be left out, as candle builds their graph. A [module](pruned) made of
//! them is left out as a whole.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;

use candle_core::{Tensor, TensorId};

thread_local! {
    /// Tensors held on this thread, if any.
    static CONSTANTS: RefCell<Option<Constants>> = const { RefCell::new(None) };
}

/// Maximum number of nodes of candle's graphs that are visited while something is held.
///
/// candle's own walk starts again for each tensor. Beyond the limit tensors are treated as trained, which is always
/// right.
const MOST_NODES: usize = 20_000;

#[derive(Debug)]
struct Constants {
    held: HashSet<TensorId>,
    /// Tensors that depend on a variable that isn't held.
    trained: HashSet<TensorId>,
    nodes_left: usize,
}

impl Constants {
    /// Whether a tensor's gradient may be wanted: it depends on a variable that isn't held.
    fn is_trained(&mut self, tensor: &Tensor) -> bool {
        if tensor.is_variable() {
            return !self.held.contains(&tensor.id());
        }
        if self.trained.contains(&tensor.id()) || self.nodes_left == 0 {
            return true;
        }
        let nodes = tensor.sorted_nodes();
        self.nodes_left = self.nodes_left.saturating_sub(nodes.len());
        let mut variables = nodes.iter().filter(|node| node.is_variable());
        let is_trained = variables.any(|variable| !self.held.contains(&variable.id()));
        if is_trained {
            self.trained.insert(tensor.id());
        }
        is_trained
    }
}

/// Holds tensors constant on this thread until it is dropped.
#[derive(Debug)]
#[must_use = "tensors are held as long as it lives"]
pub struct HeldConstants {
    outer: Option<Constants>,
    /// Makes it `!Send`: it belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Treats these tensors as constants, in place of those held before, until the result is dropped.
///
/// ```
/// use candle_core::{Device, Var};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let weight = Var::new(&[[1.0_f32, -2.0]], &Device::Cpu)?;
/// let x = Var::new(&[[3.0_f32, 4.0]], &Device::Cpu)?;
/// let held = ops::hold([weight.as_tensor()]);
/// let y = ops::linear(&x, &weight, None)?;
/// drop(held);
/// let gradients = ops::backward(&y.sum_all()?, 1.0)?;
/// assert!(gradients.get(&x).is_some() && gradients.get(&weight).is_none());
/// # Ok(())
/// # }
/// ```
pub fn hold<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> HeldConstants {
    let held: HashSet<TensorId> = tensors.into_iter().map(Tensor::id).collect();
    let constants = (!held.is_empty()).then(|| Constants {
        held,
        trained: HashSet::new(),
        nodes_left: MOST_NODES,
    });
    HeldConstants {
        outer: CONSTANTS.replace(constants),
        thread: PhantomData,
    }
}

impl Drop for HeldConstants {
    fn drop(&mut self) {
        CONSTANTS.set(self.outer.take());
    }
}

/// Whether a tensor depends on variables, all of which are held.
pub fn is_constant(tensor: &Tensor) -> bool {
    CONSTANTS.with_borrow_mut(|constants| match constants {
        Some(constants) => tensor.track_op() && !constants.is_trained(tensor),
        None => false,
    })
}

/// A tensor as an operation should see it: detached where it is a constant.
pub(crate) fn seen(tensor: &Tensor) -> Cow<'_, Tensor> {
    if is_constant(tensor) {
        Cow::Owned(tensor.detach())
    } else {
        Cow::Borrowed(tensor)
    }
}

/// Records that the output of an operation, whose constant inputs were detached, is trained.
pub(crate) fn made(output: &Tensor) {
    if !output.track_op() {
        return;
    }
    CONSTANTS.with_borrow_mut(|constants| {
        if let Some(constants) = constants {
            constants.trained.insert(output.id());
        }
    });
}

/// A module's output, detached where the module and everything before it are constant.
pub fn pruned(output: Tensor, input: &Tensor) -> Tensor {
    if !input.track_op() && is_constant(&output) {
        output.detach()
    } else {
        output
    }
}

#[cfg(test)]
mod tests;

//! Consecutive layers that run as one operation if no hook is attached to them: fewer passes over
//! memory, bitwise the same results.

use candle_core::{Result, Tensor};

use crate::Pass;
use crate::layers::{BatchNorm, Conv2d, FusionRole, Linear};
use crate::ops::{After, Function};

/// Consecutive layers as one operation.
pub(crate) enum Fused {
    Linear(Linear, Function),
    Conv2d(Conv2d, After),
    /// With `ReLU`.
    BatchNorm(BatchNorm),
}

impl Fused {
    /// Returns the fused operation for the first layers of a list, and how many it covers; none if
    /// the first layer can't be fused.
    pub(crate) fn of(roles: &[FusionRole<'_>]) -> Option<(usize, Fused)> {
        match roles {
            [
                FusionRole::Linear(linear),
                FusionRole::Activation(activation),
                ..,
            ] => {
                let function = activation.function()?;
                Some((2, Fused::Linear((*linear).clone(), function)))
            }
            [
                FusionRole::BatchNorm(norm),
                FusionRole::Activation(activation),
                ..,
            ] if activation.function() == Some(Function::Relu) => {
                Some((2, Fused::BatchNorm((*norm).clone())))
            }
            [
                FusionRole::Conv2d(conv),
                FusionRole::Activation(activation),
                FusionRole::Pool2d(pool),
                ..,
            ] if pool.is_of_squares() && activation.function() == Some(Function::Relu) => {
                let (relu, pool) = (true, true);
                Some((3, Fused::Conv2d((*conv).clone(), After { relu, pool })))
            }
            [
                FusionRole::Conv2d(conv),
                FusionRole::Activation(activation),
                ..,
            ] if activation.function() == Some(Function::Relu) => {
                let (relu, pool) = (true, false);
                Some((2, Fused::Conv2d((*conv).clone(), After { relu, pool })))
            }
            [FusionRole::Conv2d(conv), FusionRole::Pool2d(pool), ..] if pool.is_of_squares() => {
                let (relu, pool) = (false, true);
                Some((2, Fused::Conv2d((*conv).clone(), After { relu, pool })))
            }
            _ => None,
        }
    }

    /// Whether its outputs are those of an operation that can keep them rounded.
    pub(crate) fn can_round_outputs(&self) -> bool {
        matches!(self, Fused::Linear(..))
    }

    pub(crate) fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        match self {
            Fused::Linear(linear, function) => linear.forward_then(x, *function),
            Fused::Conv2d(conv, after) => conv.forward_then(x, *after),
            Fused::BatchNorm(norm) => norm.forward_then(x, pass, true),
        }
    }
}

#[cfg(test)]
mod tests;

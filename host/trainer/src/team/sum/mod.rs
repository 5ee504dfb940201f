//! Sums gradients over all ranks, along the tree of [`gradients`](crate::gradients).
//!
//! Each rank owns a piece of the elements: it receives the nodes of all ranks for its piece, adds them in the tree's
//! order, and sends the sum to all. That moves the bytes of a ring, and the order of additions does not depend on how
//! the batches were divided among the ranks.
//!
//! **Parts**
//!
//! - `note`: what ranks know of each other's nodes ([`NodeNote`])
//! - `layout`: the pieces, and the order of additions
//! - `on_host`: the sum on the host, whose bytes the run's transport moves
//! - `on_gpus`: the sum on the ranks' GPUs, whose bytes NCCL moves; it has the same bits

mod layout;
mod note;
mod on_gpus;
mod on_host;
#[cfg(test)]
mod tests;

use candle_core::DType;
use layout::Layout;
pub use note::NodeNote;
use on_gpus::GpuSums;
use on_host::HostBuffers;

use super::{Gpus, Team, TeamError};
use crate::gradients::{Gradients, TreeNode};
use crate::parameters::Parameters;

/// Reason why gradients can't be summed.
#[derive(Debug, thiserror::Error)]
pub enum SumError {
    /// The ranks can't go on together.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Tensors can't be read or made.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Sums gradients over all ranks; keeps its buffers from one update to the next.
#[derive(Debug, Default)]
pub struct Summation {
    singles: HostBuffers<f32>,
    doubles: HostBuffers<f64>,
    /// Whether gradients are `bf16` on their way.
    is_halved: bool,
    /// The ranks' GPUs, if sums stay there.
    on_gpus: Option<GpuSums>,
}

impl Summation {
    /// With `is_halved`, gradients are `bf16` on their way, and results depend on the number of ranks.
    pub fn new(is_halved: bool) -> Summation {
        Summation {
            is_halved,
            ..Summation::default()
        }
    }

    /// Sums on the GPUs of all ranks, where their gradients are.
    pub fn on_gpus(mut self, gpus: Gpus) -> Summation {
        self.on_gpus = Some(GpuSums::new(gpus));
        self
    }

    /// The sum of the nodes of all ranks; `None` if there are none. `own` are this rank's nodes, `all` the notes of every
    /// rank's, its own included.
    ///
    /// # Errors
    ///
    /// If the ranks can't go on together, or gradients are of another type than `f32` and `f64`.
    pub fn sum(
        &mut self,
        team: &Team,
        parameters: &Parameters,
        own: &[(TreeNode, Gradients)],
        all: &[Vec<NodeNote>],
    ) -> Result<Option<Gradients>, SumError> {
        if all.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let layout = |dtype| Layout::of(parameters, all, dtype, (team.rank(), team.size()));
        let (singles, doubles) = (layout(DType::F32), layout(DType::F64));
        let (device, is_halved) = (parameters.device(), self.is_halved);
        let mut sum = Gradients::none(parameters);
        if let Some(gpus) = &mut self.on_gpus {
            let layouts = (singles.as_ref(), doubles.as_ref());
            for (parameter, gradient) in gpus.sum(team, device, layouts, own, all, is_halved)? {
                sum.set(parameter, gradient);
            }
            return Ok(Some(sum));
        }
        if let Some(layout) = &singles {
            let buffers = &mut self.singles;
            buffers.sum(team, layout, own, all, is_halved, &mut sum)?;
        }
        if let Some(layout) = &doubles {
            self.doubles.sum(team, layout, own, all, false, &mut sum)?;
        }
        if !device.is_cpu() {
            for index in 0..parameters.len() {
                if let Some(gradient) = sum.at(index).cloned() {
                    sum.set(index, gradient.to_device(device)?);
                }
            }
        }
        Ok(Some(sum))
    }

    /// The parameters whose gradients can't be summed over ranks, because of their type.
    pub fn unfit(parameters: &Parameters) -> Option<(&str, DType)> {
        let mut trained = parameters.iter().filter(|entry| entry.is_trainable());
        let unfit =
            trained.find(|entry| !matches!(entry.tensor().dtype(), DType::F32 | DType::F64))?;
        Some((unfit.name(), unfit.tensor().dtype()))
    }
}

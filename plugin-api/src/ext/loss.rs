//! `sconce.loss/1`: losses that are read on demand.
//!
//! On a GPU a batch's loss is computed some time after the host has asked for it, and whoever reads it waits for that. The
//! host therefore leaves the view's field empty and sets [`ViewAbi::LOSS_WAITS`](crate::abi::ViewAbi::LOSS_WAITS), for hooks
//! that have queried this table when they were created: by that they promise to read the loss through it. For all other
//! hooks the host waits before it calls them, as they can't know that the field may be empty.

use super::extension;

/// Losses that are read on demand: on a GPU, reading one waits until it has been computed. The host reads it before it calls a hook,
/// whose view then has it, unless the hook has queried this table when it was created: by that it promises to read the loss here
/// where the view says that it waits.
#[extension("sconce.loss/1", local)]
pub trait Loss {
    /// Loss of the current phase's last batch; waits for the device. Not found before the first, and where the view has the loss.
    fn current(&self) -> Option<f64> {
        None
    }

    /// Writes the losses of the last training batches, the newest last, as many as there is room for; waits for the device.
    /// Returns their number. Only losses that hooks have seen as waiting are among them, of at least the last 1,024 batches.
    fn recent(&self, losses: &mut [f64]) -> usize {
        let _ = losses;
        0
    }
}

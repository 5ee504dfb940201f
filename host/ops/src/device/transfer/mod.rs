//! Copies of tensors to a device while it computes.
//!
//! **Parts.** `cuda` does it for GPUs; `absent` stands in for it in builds without the feature.
//!
//! **Flow.** An [`Uploader`] has a few slots, each of pinned host memory and of memory on the device. [`Uploader::begin`]
//! writes tensors to the host memory of the next slot and starts their copy on a stream of its own, beside the one that
//! computes. [`Uploader::finish`] makes the computing stream wait for that copy (not the host), and takes the tensors out of
//! the slot by copies within the device, which are as good as free. So a slot's memory is never in the hands of others, and
//! can be overwritten once the device has taken its tensors out.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod cuda;

#[cfg(not(feature = "cuda"))]
use absent as backend;
use candle_core::{Device, Result, Tensor};
#[cfg(feature = "cuda")]
use cuda as backend;

/// Copies tensors to a device while it computes.
pub struct Uploader(backend::Uploader);

/// A copy that has begun.
pub struct Upload(backend::Upload);

impl Uploader {
    /// Number of copies that may have begun and not been finished.
    pub const SLOTS: usize = 3;

    /// Creates an uploader; `None` for the CPU.
    ///
    /// # Errors
    ///
    /// If the device has no further stream.
    pub fn new(device: &Device) -> Result<Option<Uploader>> {
        Ok(backend::Uploader::new(device)?.map(Uploader))
    }

    /// Begins to copy tensors of the CPU. Waits if the slot's last copy is still being made, [`SLOTS`](Self::SLOTS) copies
    /// ago.
    ///
    /// # Errors
    ///
    /// If there is no memory for them, on the device or pinned; or if a type of elements can't be copied.
    pub fn begin(&mut self, tensors: &[&Tensor]) -> Result<Upload> {
        self.0.begin(tensors).map(Upload)
    }

    /// Returns the tensors of a copy on the device, in their order: copies are finished in the order in which they began.
    ///
    /// # Errors
    ///
    /// If there is no memory for them on the device.
    pub fn finish(&mut self, upload: Upload) -> Result<Vec<Tensor>> {
        self.0.finish(upload.0)
    }
}

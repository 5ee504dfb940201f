//! Moves bytes between the GPUs of several processes, by NVIDIA's NCCL.
//!
//! NCCL adds nothing here: its sums have an order of their own, which depends on the number of ranks. It only sends and receives.
//!
//! **Parts**
//! - [`Communicator`]: the GPUs of a run's ranks, connected. `communicator` is the one of builds with CUDA, `absent` stands in for
//!   it in others.
//! - `functions`: NCCL's functions, from `libnccl.so.2`, which is opened when a run asks for it, never linked.
//!
//! **Flow.** Each rank asks for its [`version`] and the [`gpu_id`] of its GPU; the ranks compare them by other means. The first
//! makes a [`UniqueId`] and gives it to all, and all connect. Then every rank queues the same exchanges in the order of candle's
//! stream, and waits for them.
//!
//! **When a rank is gone.** NCCL may notice it, or wait for ever: in [`Communicator::wait`], or in any call that connects. Whoever
//! calls these limits their time.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod communicator;
#[cfg(feature = "cuda")]
mod functions;
#[cfg(all(test, feature = "cuda"))]
mod tests;

use std::fmt;

#[cfg(not(feature = "cuda"))]
use absent as backend;
use candle_core::{Device, Tensor};
#[cfg(feature = "cuda")]
use communicator as backend;

/// What the ranks of a communicator find each other by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueId([u8; UniqueId::SIZE]);

impl UniqueId {
    /// Size in bytes, that of NCCL's `ncclUniqueId`.
    pub const SIZE: usize = 128;

    /// Creates an identifier for a new communicator.
    pub fn new() -> Result<UniqueId, NcclError> {
        backend::unique_id().map(UniqueId)
    }

    /// Reads the bytes that another rank has sent.
    pub fn from_bytes(bytes: &[u8]) -> Option<UniqueId> {
        bytes.try_into().ok().map(UniqueId)
    }

    /// The bytes, for other ranks.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Why NCCL can't be used, or has failed. Its text says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NcclError {
    /// The tensors are not on a GPU.
    NoGpu,
    /// The kernels that add what NCCL has moved are switched off.
    NoKernels,
    /// NCCL's library can't be opened.
    LibraryMissing {
        /// Package of the Python package index that contains it.
        package: String,
        /// What the last attempt to open it answered.
        reason: String,
    },
    /// NCCL or the driver has failed.
    Failed {
        /// What was attempted.
        action: &'static str,
        /// What NCCL or the driver answered.
        reason: String,
    },
}

impl fmt::Display for NcclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGpu => f.write_str("it computes on the CPU"),
            Self::NoKernels => write!(
                f,
                "`{}=composed` leaves out the kernels that add gradients on a GPU",
                crate::choice::VARIABLE
            ),
            Self::LibraryMissing { package, reason } => write!(
                f,
                "`libnccl.so.2` can't be opened ({reason}); install it with `pip install {package}` in the active Python \
                 environment, or name its directory in `{}`",
                super::LIBRARIES_VARIABLE
            ),
            Self::Failed { action, reason } => write!(f, "could not {action}: {reason}"),
        }
    }
}

impl std::error::Error for NcclError {}

/// Version of NCCL, such as `2.28.9`, if this process can use it for tensors on a device.
///
/// # Errors
///
/// If the device is not a GPU, or NCCL's library can't be opened.
pub fn version(device: &Device) -> Result<String, NcclError> {
    backend::version(device)
}

/// Version of NCCL, such as `2.28.9`, if its library can be opened.
///
/// # Errors
///
/// If it can't.
pub fn installed() -> Result<String, NcclError> {
    backend::installed()
}

/// The number by which NVIDIA's driver knows a GPU on all machines; `None` for the CPU.
pub fn gpu_id(device: &Device) -> Option<[u8; 16]> {
    backend::gpu_id(device)
}

/// The GPUs of all ranks, connected. Every rank makes the same calls in the same order, with lengths that fit.
#[derive(Debug)]
pub struct Communicator(backend::Communicator);

impl Communicator {
    /// Connects this rank, whose tensors are on `device`, with all `size` ranks. Waits for all of them, without a limit.
    ///
    /// # Errors
    ///
    /// If NCCL can't connect them.
    pub fn connect(
        device: &Device,
        id: &UniqueId,
        rank: usize,
        size: usize,
    ) -> Result<Communicator, NcclError> {
        backend::Communicator::connect(device, &id.0, rank, size).map(Communicator)
    }

    /// Queues that the part `send_at[r]..send_at[r + 1]` of `send` is sent to each rank `r`, and each rank's part for this one
    /// is received in `receive`, at `receive_at[r]..receive_at[r + 1]`: in elements. The first exchange with a rank may wait for
    /// it.
    ///
    /// # Errors
    ///
    /// If NCCL fails, or a part is not within its tensor.
    pub fn exchange(
        &self,
        (send, send_at): (&Tensor, &[usize]),
        (receive, receive_at): (&Tensor, &[usize]),
    ) -> Result<(), NcclError> {
        self.0.exchange((send, send_at), (receive, receive_at))
    }

    /// Queues that each rank `r`'s part `at[r]..at[r + 1]` of `data` is copied to all ranks, in place: in elements.
    ///
    /// # Errors
    ///
    /// If NCCL fails, or a part is not within the tensor.
    pub fn collect(&self, data: &Tensor, at: &[usize]) -> Result<(), NcclError> {
        self.0.collect(data, at)
    }

    /// Waits until everything queued on the device has been done, without a limit.
    ///
    /// # Errors
    ///
    /// If NCCL has failed, on this rank or, as far as it notices that, on another.
    pub fn wait(&self) -> Result<(), NcclError> {
        self.0.wait()
    }

    /// Ends the connection at once, with whatever is under way. Later calls fail.
    pub fn abort(&mut self) {
        self.0.abort();
    }
}

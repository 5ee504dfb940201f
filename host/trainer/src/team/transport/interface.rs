//! What moves bytes between ranks. It does no arithmetic: sums are the host's, in a fixed order.

use std::fmt;

/// An error of a transport, after which it can't be used any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// What failed, for the user.
    pub message: String,
    /// Whether a rank was waited for in vain, for as long as `distributed.timeout` allows.
    pub is_late: bool,
}

impl TransportError {
    /// An error other than the end of waiting.
    pub fn new(message: impl Into<String>) -> TransportError {
        TransportError {
            message: message.into(),
            is_late: false,
        }
    }
}

/// Moves bytes between the ranks of a team. Every rank calls the same methods in the same order, with lengths that fit.
pub trait Transport: fmt::Debug + Send {
    /// Number of this process, from 0.
    fn rank(&self) -> usize;

    /// Number of processes, at least 1.
    fn size(&self) -> usize;

    /// The machine that each rank runs on.
    fn hosts(&self) -> &[String];

    /// What moves the bytes, with its version, for people.
    fn name(&self) -> &str;

    /// SHA-256 of the plugin's file, in hexadecimal digits.
    fn file_hash(&self) -> &str;

    /// Copies `data` from the rank `root` to all others; it has the same length on all ranks.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the transport fails.
    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<(), TransportError>;

    /// Copies every rank's `own` to all ranks, in the order of ranks. `own` has the same length on all ranks; `all` is
    /// `size` times as long.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the transport fails.
    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<(), TransportError>;

    /// Sends the part `send_at[r]..send_at[r + 1]` of `send` to each rank `r`, and receives each rank's part for this
    /// one in `receive`, at `receive_at[r]..receive_at[r + 1]`. Both lists have `size + 1` elements that don't decrease.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the transport fails.
    fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[usize],
        receive: &mut [u8],
        receive_at: &[usize],
    ) -> Result<(), TransportError>;

    /// Copies each rank `r`'s part `at[r]..at[r + 1]` of `data` to all ranks, in place. `at` has `size + 1` elements that
    /// don't decrease, the same on all ranks.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the transport fails.
    fn collect(&mut self, data: &mut [u8], at: &[usize]) -> Result<(), TransportError>;

    /// Ends all ranks at once with this exit code. Only returns where the transport can't end them.
    fn abort(&mut self, code: u8);
}

//! Transports: what moves bytes between the processes of a run on several machines.
//!
//! A plugin offers one or more by `export_plugin!(transports: [Mine]);`. The host chooses by name, opens one per
//! process, and does all arithmetic itself: a transport only copies bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;

/// Moves bytes between the ranks of a run, processes numbered from 0.
///
/// Every rank calls the same methods in the same order, with lengths that fit. All lengths and offsets are in bytes; a
/// list of offsets has one more element than there are ranks, begins with 0, and does not decrease. The host checks
/// that the last offset is the length of the data.
///
/// Calls are made one after the other, though not always on the thread that opened the transport. A call that waits
/// for a rank that is gone, or for longer than the timeout, should return an error that names the rank; after an error
/// only [`abort`](Transport::abort) is called. Dropping the transport ends the connection.
pub trait Transport: Send + Sized + 'static {
    /// Name, as in the manifest's `distributed.engine`.
    const NAME: &'static str;

    /// Purpose of the transport, in one sentence.
    const ABOUT: &'static str;

    /// Connects this process with all others. `config` is the manifest's `distributed`, as a JSON object.
    ///
    /// # Errors
    ///
    /// If a rank can't be reached within the timeout, or the environment does not say which ranks there are.
    fn open(config: &str, timeout: Duration) -> Result<Self>;

    /// The ranks, as seen by this one. Called once.
    ///
    /// # Errors
    ///
    /// If a rank can't be asked.
    fn facts(&mut self) -> Result<TransportFacts>;

    /// Copies `data` from the rank `root` to all others; it has the same length on all ranks.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the connection fails.
    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()>;

    /// Copies every rank's `own` to `all` on all ranks, in the order of ranks. `own` has the same length on all ranks;
    /// `all` is as many times as long as there are ranks.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the connection fails.
    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()>;

    /// Sends the part `send_at[r]..send_at[r + 1]` of `send` to each rank `r`, and receives each rank's part for this
    /// one in `receive`, at `receive_at[r]..receive_at[r + 1]`.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the connection fails.
    fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[u64],
        receive: &mut [u8],
        receive_at: &[u64],
    ) -> Result<()>;

    /// Copies each rank `r`'s part `at[r]..at[r + 1]` of `data` to all ranks, in place. `at` is the same on all ranks.
    ///
    /// # Errors
    ///
    /// If a rank is gone, or the connection fails.
    fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()>;

    /// Ends all ranks at once with this exit code. Returns only if that is not possible.
    fn abort(&mut self, code: u8);
}

/// The ranks of a run, as a transport sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportFacts {
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// The machine's name for each rank.
    pub hosts: Vec<String>,
    /// What moves the bytes, with its version, such as `Open MPI 4.1.4`.
    pub about: String,
}

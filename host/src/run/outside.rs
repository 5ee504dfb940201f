//! Sources of requests from outside the run, and its observer.

use super::interrupt::{Interrupt, StopSignal};
use super::observer::Observer;
use super::reloads::ReloadService;
use super::remote::Remote;

/// Connections of a run to the outside.
#[derive(Default)]
pub(super) struct Outside<'run> {
    /// Asks the run to end soon.
    pub(super) interrupt: Interrupt,
    /// The signal that asked for it, once the run has noticed.
    pub(super) interrupted_by: Option<StopSignal>,
    /// Makes other requests of the run.
    pub(super) remote: Remote,
    /// Gives hooks new libraries.
    pub(super) reloads: Option<ReloadService<'run>>,
    /// Observes the run.
    pub(super) observer: Option<&'run dyn Observer>,
}

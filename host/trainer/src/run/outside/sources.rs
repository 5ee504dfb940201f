//! Sources of requests from outside the run, and its observer.

use super::interrupt::{Interrupt, StopSignal};
use super::observer::Observer;
use super::remote::Remote;
use crate::run::replacement::waiting::ReloadService;

/// Connections of a run to the outside.
#[derive(Default)]
pub(in crate::run) struct Outside<'run> {
    /// Asks the run to end soon.
    pub(in crate::run) interrupt: Interrupt,
    /// The signal that asked for it, once the run has noticed.
    pub(in crate::run) interrupted_by: Option<StopSignal>,
    /// Makes other requests of the run.
    pub(in crate::run) remote: Remote,
    /// Gives hooks new libraries.
    pub(in crate::run) reloads: Option<ReloadService<'run>>,
    /// Observes the run.
    pub(in crate::run) observer: Option<&'run dyn Observer>,
}

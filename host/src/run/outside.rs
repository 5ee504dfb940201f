//! Who asks things of a run from outside of it, and who watches it.

use super::interrupt::{Interrupt, Signal};
use super::observer::Observer;
use super::remote::Remote;

/// The outside of a run.
#[derive(Default)]
pub(super) struct Outside<'run> {
    /// Asks the run to end soon.
    pub(super) interrupt: Interrupt,
    /// The signal that has asked for it, once the run has noticed.
    pub(super) interrupted_by: Option<Signal>,
    /// Asks other things of the run.
    pub(super) remote: Remote,
    /// Watches the run.
    pub(super) observer: Option<&'run dyn Observer>,
}

//! The times of a run.

use sconce_plugin_api::Phase;

use super::costs::Costs;
use super::profile::{PassTimes, Profile};

/// The times of a run's passes.
pub(super) struct Timing {
    /// The clock readings of the pass in progress.
    pub(super) pass: PassTimes,
    /// The times of all passes of each phase that ran.
    pub(super) profiles: Vec<(Phase, Profile)>,
    /// What hooks may cost without a warning.
    pub(super) costs: Costs,
}

impl Timing {
    /// Before the first pass.
    pub(super) fn new() -> Timing {
        Timing {
            pass: PassTimes::begin(),
            profiles: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// Adds a finished pass to those of its phase.
    pub(super) fn add(&mut self, phase: Phase, pass: Profile) {
        match self.profiles.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, profile)) => profile.add(&pass),
            None => self.profiles.push((phase, pass)),
        }
    }
}

//! Timings of a run.

use sconce_plugin_api::Phase;

use super::costs::Costs;
use super::profile::{PassTimes, Profile};

/// Timings of a run's passes.
pub(super) struct Timing {
    /// Clock readings of the pass in progress.
    pub(super) pass: PassTimes,
    /// Timings of each phase that ran, summed over its passes.
    pub(super) profiles: Vec<(Phase, Profile)>,
    /// Limits above which the costs of hooks cause a warning.
    pub(super) costs: Costs,
}

impl Timing {
    /// The state before the first pass.
    pub(super) fn new() -> Timing {
        Timing {
            pass: PassTimes::begin(),
            profiles: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// Adds a finished pass to its phase's timings.
    pub(super) fn add(&mut self, phase: Phase, pass: Profile) {
        match self.profiles.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, profile)) => profile.add(&pass),
            None => self.profiles.push((phase, pass)),
        }
    }
}

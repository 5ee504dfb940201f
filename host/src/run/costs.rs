//! What hooks cost: a warning of those that take much of a pass's time, or keep more and more memory.

use sconce_plugin_api::Phase;

use super::Profile;
use crate::dispatch::HookTimes;

/// Passes that are shorter say nothing, in seconds.
const SHORTEST: f64 = 1.0;

/// So much more memory in two training passes, one after the other, is a leak, in bytes.
const LEAK: f64 = 16e6;

/// What was told, and what the passes before were like.
#[derive(Debug)]
pub(super) struct Costs {
    /// A hook that takes more of a pass is told.
    pub(super) share: f64,
    hooks: Vec<Hook>,
}

#[derive(Clone, Debug, Default)]
struct Hook {
    is_slow: bool,
    leaks: bool,
    /// Whether the last training pass made it grow by more than [`LEAK`].
    grew: bool,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            share: 0.25,
            hooks: Vec::new(),
        }
    }
}

impl Costs {
    /// What is to be told after a pass, once for each hook.
    pub(super) fn warnings(
        &mut self,
        phase: Phase,
        pass: &Profile,
        times: &[HookTimes],
    ) -> Vec<String> {
        self.hooks.resize(times.len(), Hook::default());
        let mut warnings = Vec::new();
        for ((hook, time), times) in self.hooks.iter_mut().zip(&pass.hooks).zip(times) {
            let share = time.seconds / pass.total.max(f64::MIN_POSITIVE);
            if !hook.is_slow && pass.total >= SHORTEST && share > self.share {
                hook.is_slow = true;
                warnings.push(format!(
                    "hook `{}` took {:.0} % of the last pass over the {} data: {:.1} s in {} calls",
                    time.name,
                    100.0 * share,
                    phase.name(),
                    time.seconds,
                    time.calls
                ));
            }
            if phase != Phase::Train {
                continue;
            }
            let growth = times.growth();
            let grows = growth >= LEAK;
            if grows && hook.grew && !hook.leaks {
                hook.leaks = true;
                warnings.push(format!(
                    "hook `{}` keeps more and more memory: about {:.0} MB more in the last pass over the {} data",
                    time.name,
                    growth / 1e6,
                    phase.name()
                ));
            }
            hook.grew = grows;
        }
        warnings
    }
}

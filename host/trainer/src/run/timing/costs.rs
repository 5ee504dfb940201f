//! Warnings about hooks that take a large part of a pass's time, or use ever more memory.

use sconce_plugin_api::Phase;

use crate::dispatch::HookTimes;
use crate::run::Profile;

/// Minimum duration in seconds of a pass that is judged.
const SHORTEST: f64 = 1.0;

/// Growth in bytes, in each of two consecutive training passes, that counts as a leak.
const LEAK: f64 = 16e6;

/// What has been reported, and the results of earlier passes.
#[derive(Debug)]
pub(in crate::run) struct Costs {
    /// Fraction of a pass above which a hook is reported.
    pub(in crate::run) fraction: f64,
    hooks: Vec<HookCosts>,
}

#[derive(Clone, Debug, Default)]
struct HookCosts {
    is_slow: bool,
    leaks: bool,
    /// Whether memory grew by more than [`LEAK`] in the last training pass.
    grew: bool,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            fraction: 0.25,
            hooks: Vec::new(),
        }
    }
}

impl Costs {
    /// The warnings due after a pass, at most one of each kind per hook.
    pub(in crate::run) fn warnings(
        &mut self,
        phase: Phase,
        pass: &Profile,
        times: &[HookTimes],
    ) -> Vec<String> {
        self.hooks.resize(times.len(), HookCosts::default());
        let mut warnings = Vec::new();
        for ((hook, time), times) in self.hooks.iter_mut().zip(&pass.hooks).zip(times) {
            let fraction = time.seconds / pass.total.max(f64::MIN_POSITIVE);
            if !hook.is_slow && pass.total >= SHORTEST && fraction > self.fraction {
                hook.is_slow = true;
                warnings.push(format!(
                    "hook `{}` took {:.0} % of the last pass over the {} data: {:.1} s in {} calls",
                    time.name,
                    100.0 * fraction,
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

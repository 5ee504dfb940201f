//! Where the time of a pass goes, as far as a loop's own calls tell it.

use std::time::{Duration, Instant};

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{HookTimeAbi, ProfileAbi, TextAbi};

use crate::dispatch::{HookTimes, LoadedHook};

/// Times of the pass in progress; measured only where a hook is called at `epoch_profile`.
#[derive(Debug)]
pub(super) struct PassTimes {
    begin: Instant,
    /// When the loop went on after the last mount point.
    left: Instant,
    data: Duration,
    forward: Duration,
    loss: Duration,
    backward: Duration,
    update: Duration,
}

impl PassTimes {
    /// A pass that begins now.
    pub(super) fn begin() -> PassTimes {
        let now = Instant::now();
        PassTimes {
            begin: now,
            left: now,
            data: Duration::ZERO,
            forward: Duration::ZERO,
            loss: Duration::ZERO,
            backward: Duration::ZERO,
            update: Duration::ZERO,
        }
    }

    /// The loop has come to a mount point: what it did since the last one is the work before this one.
    pub(super) fn reach(&mut self, point: Point) {
        let took = self.left.elapsed();
        let part = match point {
            Point::BeforeIter => &mut self.data,
            Point::AfterForward => &mut self.forward,
            Point::AfterLoss => &mut self.loss,
            Point::AfterBackward => &mut self.backward,
            Point::AfterUpdate => &mut self.update,
            _ => return,
        };
        *part += took;
    }

    /// The loop goes on after a mount point.
    pub(super) fn leave(&mut self) {
        self.left = Instant::now();
    }

    /// What hooks are given of it, with their own times, which the result borrows.
    pub(super) fn payload(&self, hooks: &[HookTimeAbi]) -> ProfileAbi {
        ProfileAbi {
            total: self.begin.elapsed().as_secs_f64(),
            data: self.data.as_secs_f64(),
            forward: self.forward.as_secs_f64(),
            loss: self.loss.as_secs_f64(),
            backward: self.backward.as_secs_f64(),
            update: self.update.as_secs_f64(),
            hooks: hooks.as_ptr(),
            hook_count: hooks.len(),
        }
    }
}

/// The times of hooks' calls in a pass.
pub(super) fn hook_times(hooks: &[LoadedHook], times: &[HookTimes]) -> Vec<HookTimeAbi> {
    let of = |(hook, times): (&LoadedHook, &HookTimes)| HookTimeAbi {
        name: TextAbi::new(&hook.spec.name),
        calls: times.calls,
        seconds: times.seconds(),
        longest: times.longest.as_secs_f64(),
        requests: 0.0,
    };
    hooks.iter().zip(times).map(of).collect()
}

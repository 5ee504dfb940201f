//! Timings of a pass over a phase's data.

use std::time::{Duration, Instant};

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::{HookTimeAbi, ProfileAbi, TextAbi};
use serde::Serialize;

use super::wall_time::scale;
use crate::bridge::CopyCosts;
use crate::dispatch::{HookTimes, LoadedHook};
use crate::nn::ops::device::waited;

/// Clock readings of a pass in progress.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct PassTimes {
    /// Phase of the pass; `None` outside of passes.
    pub(in crate::run) phase: Option<Phase>,
    pub(in crate::run) begin: Instant,
    /// Time waited for a GPU before the pass, or in work that does not count towards it.
    pub(in crate::run) waited_before: Duration,
    pub(in crate::run) data: Duration,
    pub(in crate::run) forward: Duration,
    pub(in crate::run) loss: Duration,
    pub(in crate::run) backward: Duration,
    pub(in crate::run) update: Duration,
}

impl PassTimes {
    /// Starts the clock of a pass.
    pub(in crate::run) fn begin() -> PassTimes {
        PassTimes {
            phase: None,
            begin: Instant::now(),
            waited_before: waited(),
            data: Duration::ZERO,
            forward: Duration::ZERO,
            loss: Duration::ZERO,
            backward: Duration::ZERO,
            update: Duration::ZERO,
        }
    }

    /// Time waited for a GPU in the pass.
    pub(in crate::run) fn waited(&self) -> Duration {
        waited().saturating_sub(self.waited_before)
    }

    /// Leaves out work that began with `begin` and `waited`: it does not count towards the pass.
    pub(in crate::run) fn leave_out(&mut self, begin: Instant, waited_before: Duration) {
        self.begin += begin.elapsed();
        self.waited_before += waited().saturating_sub(waited_before);
    }
}

/// Timings of one pass, or of all passes of a phase, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Profile {
    /// Number of passes.
    pub passes: u64,
    /// From `before_epoch` to `after_epoch`, without requests that were served meanwhile: the sum of all others.
    pub total: f64,
    /// Waiting for batches.
    pub data: f64,
    /// Forward passes.
    pub forward: f64,
    /// Losses and metrics.
    pub loss: f64,
    /// Backward passes.
    pub backward: f64,
    /// Steps of the optimizer.
    pub update: f64,
    /// Waiting for the GPU, which then does what was queued in the other times.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: f64,
    /// Everything else.
    pub other: f64,
    /// The hooks, in the manifest's order.
    pub hooks: Vec<HookTiming>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(seconds: &f64) -> bool {
    *seconds <= 0.0
}

/// Timings of a hook within a [`Profile`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookTiming {
    /// Name of the hook.
    pub name: String,
    /// Number of its calls.
    pub calls: u64,
    /// Total time of its calls in seconds; estimated from a sample if calls are short and many.
    pub seconds: f64,
    /// Longest of the timed calls, in seconds.
    pub longest: f64,
    /// Copies of a device's tensors to host memory and back that were made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<HookCopies>,
}

/// Copies of a device's tensors that were made for a hook, within a [`HookTiming`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HookCopies {
    /// Number of tensors copied, in both directions.
    pub count: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Time that took, in seconds; those before and in a call are part of its time, those back are not.
    pub seconds: f64,
}

impl HookCopies {
    fn of(costs: CopyCosts) -> Option<HookCopies> {
        (costs.count > 0).then_some(HookCopies {
            count: costs.count,
            bytes: costs.bytes,
            seconds: costs.time.as_secs_f64(),
        })
    }

    fn add(&mut self, other: HookCopies) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
    }
}

impl Profile {
    /// The profile of a finished pass.
    pub(in crate::run) fn of(
        pass: &PassTimes,
        hooks: &[LoadedHook],
        times: &[HookTimes],
    ) -> Profile {
        let total = pass.begin.elapsed().as_secs_f64();
        let parts = [
            pass.data,
            pass.forward,
            pass.loss,
            pass.backward,
            pass.update,
            pass.waited(),
        ];
        let [data, forward, loss, backward, update, waiting] = parts.map(|part| part.as_secs_f64());
        let room = total - (data + forward + loss + backward + update + waiting);
        let called: f64 = times.iter().map(HookTimes::seconds).sum();
        let scale = scale(called, room);
        let hook = |(hook, times): (&LoadedHook, &HookTimes)| HookTiming {
            name: hook.spec.name.clone(),
            calls: times.calls,
            seconds: times.seconds() * scale,
            longest: times.longest.as_secs_f64(),
            copies: HookCopies::of(times.copies),
        };
        Profile {
            passes: 1,
            total,
            data,
            forward,
            loss,
            backward,
            update,
            waiting,
            other: (room - called * scale).max(0.0),
            hooks: hooks.iter().zip(times).map(hook).collect(),
        }
    }

    /// Adds another pass.
    pub fn add(&mut self, pass: &Profile) {
        self.passes += pass.passes;
        self.total += pass.total;
        self.data += pass.data;
        self.forward += pass.forward;
        self.loss += pass.loss;
        self.backward += pass.backward;
        self.update += pass.update;
        self.waiting += pass.waiting;
        self.other += pass.other;
        if self.hooks.is_empty() {
            self.hooks.clone_from(&pass.hooks);
            return;
        }
        for (sum, hook) in self.hooks.iter_mut().zip(&pass.hooks) {
            sum.calls += hook.calls;
            sum.seconds += hook.seconds;
            sum.longest = sum.longest.max(hook.longest);
            if let Some(copies) = hook.copies {
                sum.copies.get_or_insert_default().add(copies);
            }
        }
    }

    /// The hooks' entries in their ABI form; they borrow the names. `served` are the seconds spent on requests by hook.
    pub(in crate::run) fn hook_entries(&self, served: &[(String, f64)]) -> Vec<HookTimeAbi> {
        let served = |name: &str| {
            let found = served.iter().find(|(hook, _)| hook == name);
            found.map_or(0.0, |(_, seconds)| *seconds)
        };
        let entry = |hook: &HookTiming| HookTimeAbi {
            name: TextAbi::new(&hook.name),
            calls: hook.calls,
            seconds: hook.seconds,
            longest: hook.longest,
            requests: served(&hook.name),
        };
        self.hooks.iter().map(entry).collect()
    }

    /// The payload of `epoch_profile`; it borrows the entries.
    pub(in crate::run) fn payload(&self, hooks: &[HookTimeAbi]) -> ProfileAbi {
        ProfileAbi {
            total: self.total,
            data: self.data,
            forward: self.forward,
            loss: self.loss,
            backward: self.backward,
            update: self.update,
            hooks: hooks.as_ptr(),
            hook_count: hooks.len(),
        }
    }
}

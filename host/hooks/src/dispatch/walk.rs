//! The calls of a mount point's hooks, one after the other: everything that each call costs.

use sconce_lifecycle::Position;
use sconce_plugin_api::Point;

use super::times::{Begin, HookTimes};
use super::{Dispatcher, LoadedHook, is_due};
use crate::bridge::BridgeState;
use crate::faults;
use crate::hook_id::HookId;

/// A call after which something is to be done: it was timed, failed, left a message, or changed the floating-point mode.
pub(super) struct Stop {
    /// Index in its list.
    pub(super) index: usize,
    pub(super) hook: HookId,
    pub(super) status: u32,
    pub(super) is_timed: bool,
}

impl Dispatcher {
    /// Calls the hooks of a point's list from `first` on, until one after which something is to be done.
    #[expect(
        clippy::inline_always,
        reason = "as a function of its own it costs 37 instructions more at a mount point"
    )]
    #[inline(always)]
    pub(super) fn walk(
        &mut self,
        first: usize,
        point: Point,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Option<Stop> {
        let copies = faults::mark();
        let slots = self.lists.at(point, position.phase).get(first..)?;
        for (distance, slot) in slots.iter().enumerate() {
            if slot.is_filtered {
                let hook: Option<&LoadedHook> = self.hooks.get(slot.hook.position());
                if !hook.is_some_and(|hook| is_due(hook, self.module, point, position)) {
                    continue;
                }
            }
            shared.set_hook(slot.hook);
            // A hook before it may have changed the rate.
            self.view.learning_rate = shared.optimizer.learning_rate.get();
            let times = self.times.get_mut(slot.hook.position())?;
            let is_timed = times.begin();
            if is_timed {
                self.begin = begin_timed(times);
            }
            shared.trail.begin(slot.hook);
            // SAFETY: the lists only have instances of hooks in `self.hooks`, which keeps them alive;
            // view and error are valid for the call.
            let status = unsafe {
                (slot.call)(
                    slot.instance,
                    point.number(),
                    &raw const self.view,
                    &raw mut self.error,
                )
            };
            copies.check();
            let is_quiet = status == 0 && self.error.message.is_empty();
            if !is_quiet || is_timed || self.process.has_other_results() {
                return Some(Stop {
                    index: first + distance,
                    hook: slot.hook,
                    status,
                    is_timed,
                });
            }
        }
        None
    }
}

/// Begins a timed call, which has been counted.
#[cold]
#[inline(never)]
fn begin_timed(times: &HookTimes) -> Begin {
    if times.is_first() {
        Begin::read_all()
    } else {
        Begin::read()
    }
}

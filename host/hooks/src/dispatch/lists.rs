//! Order of calls, computed once: a list per mount point and phase.

use std::ffi::c_void;

use sconce_plugin_api::{Phase, Point};

use super::points::is_module;
use super::{HookSpec, LoadedHook};
use crate::hook_id::HookId;
use crate::plugin::instance::CallEntry;

/// What a call needs of a hook, contiguous in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) call: CallEntry,
    pub(super) instance: *mut c_void,
    pub(super) hook: HookId,
    /// Whether the hook's filters must be evaluated.
    pub(super) is_filtered: bool,
}

/// Lists of all points and phases.
#[derive(Debug)]
pub(super) struct Lists {
    lists: Vec<Vec<Slot>>,
}

impl Lists {
    /// Builds the lists for `hooks`, which are in the manifest's order; disabled hooks are in none.
    pub(super) fn new(hooks: &[LoadedHook]) -> Lists {
        let lists = Point::ALL
            .iter()
            .flat_map(|&point| Phase::ALL.map(|phase| (point, phase)))
            .map(|(point, phase)| list(hooks, point, phase))
            .collect();
        Lists { lists }
    }

    /// Removes a hook from all lists; the others keep their order.
    pub(super) fn remove(&mut self, hook: HookId) {
        for list in &mut self.lists {
            list.retain(|slot| slot.hook != hook);
        }
    }

    #[inline]
    pub(super) fn at(&self, point: Point, phase: Phase) -> &[Slot] {
        let index = point.number() as usize * Phase::ALL.len() + phase.number() as usize;
        self.lists.get(index).map_or(&[], Vec::as_slice)
    }
}

/// The hooks that are called at a point in a phase, in the order of their calls: by
/// priority, then in the manifest's order.
pub fn order<'a>(
    specs: impl IntoIterator<Item = &'a HookSpec>,
    point: Point,
    phase: Phase,
) -> Vec<HookId> {
    let mut called: Vec<(HookId, &HookSpec)> = specs
        .into_iter()
        .enumerate()
        .map(|(position, spec)| (HookId::at(position), spec))
        .filter(|(_, spec)| spec.is_called_at(point, phase))
        .collect();
    called.sort_by_key(|(_, spec)| spec.priority);
    called.into_iter().map(|(id, _)| id).collect()
}

fn list(hooks: &[LoadedHook], point: Point, phase: Phase) -> Vec<Slot> {
    order(hooks.iter().map(|hook| &hook.spec), point, phase)
        .into_iter()
        .filter_map(|id| Some((id, hooks.get(id.position())?)))
        .filter(|(_, hook)| !hook.is_out())
        .map(|(id, hook)| {
            let (instance, call) = hook.instance.entry();
            Slot {
                call,
                instance,
                hook: id,
                is_filtered: hook.spec.is_filtered_at(point)
                    || is_module(point) && hook.listens.is_some(),
            }
        })
        .collect()
}

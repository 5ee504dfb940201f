//! Calling hooks: per mount point and phase, a list of those that override it, in order.
//!
//! A mount point that nobody overrides has an empty list and costs one look at its length.

mod every;
mod fault;
mod hooks;
mod lists;
mod memory;
mod payload;
mod points;
mod process;
mod states;
mod times;

use sconce_plugin_api::abi::{ErrorAbi, Status, ViewAbi};
use sconce_plugin_api::{Phase, Point};

pub use every::{Every, Unit};
pub use fault::HookFault;
pub use hooks::{Hook, HookSpec, Moment, OnError};
pub use lists::order;
use lists::{Lists, Slot};
pub use payload::Payload;
use points::is_module;
use process::Process;
use times::Begin;
pub use times::HookTimes;

use crate::bridge::Shared;
use crate::faults;
use crate::nn::ModuleInfo;
use crate::plugin::entry_error::EntryError;

/// The hooks of a run, in the manifest's order, and the order of their calls.
pub struct Dispatcher {
    hooks: Vec<Hook>,
    lists: Lists,
    /// The hooks' times in this pass, in the manifest's order.
    times: Vec<HookTimes>,
    /// The task's module whose point is under way.
    module: usize,
    error: ErrorAbi,
    process: Process,
    /// When the call under way began, if it is timed.
    begin: Begin,
}

impl Dispatcher {
    /// A dispatcher over hooks in the manifest's order.
    pub fn new(hooks: Vec<Hook>) -> Dispatcher {
        let lists = Lists::new(&hooks);
        Dispatcher {
            times: vec![HookTimes::default(); hooks.len()],
            hooks,
            lists,
            module: 0,
            error: ErrorAbi::new(),
            process: Process::look(),
            begin: Begin::read(),
        }
    }

    /// The hooks, in the manifest's order.
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// The hooks' times since the last time this was asked, in the manifest's order.
    pub fn take_times(&mut self) -> Vec<HookTimes> {
        let fresh = vec![HookTimes::default(); self.hooks.len()];
        std::mem::replace(&mut self.times, fresh)
    }

    /// The hooks' times since they were taken, in the manifest's order.
    pub fn times(&self) -> &[HookTimes] {
        &self.times
    }

    /// Calls the hooks of a point. The first fault of a hook whose policy is `fail` ends it; the
    /// other policies' faults are reported and passed over.
    #[inline]
    pub fn call(
        &mut self,
        point: Point,
        view: &mut ViewAbi,
        shared: &Shared<'_>,
    ) -> Result<(), Box<HookFault>> {
        if self.lists.at(point, phase_of(view)).is_empty() {
            return Ok(());
        }
        self.call_all(point, view, shared)
    }

    /// Calls every hook of a point, whatever happens, and gives back all faults.
    pub fn call_every(
        &mut self,
        point: Point,
        view: &mut ViewAbi,
        shared: &Shared<'_>,
    ) -> Vec<HookFault> {
        let mut faults = Vec::new();
        let mut from = 0;
        while let Some((index, fault)) = self.call_from(from, point, view, shared) {
            faults.push(*fault);
            from = index + 1;
        }
        faults
    }

    fn call_all(
        &mut self,
        point: Point,
        view: &mut ViewAbi,
        shared: &Shared<'_>,
    ) -> Result<(), Box<HookFault>> {
        match self.call_from(0, point, view, shared) {
            Some((_, fault)) => Err(fault),
            None => Ok(()),
        }
    }

    /// Calls the hooks of a point from index `from` of its list on, to the first fault that ends
    /// the run.
    fn call_from(
        &mut self,
        from: usize,
        point: Point,
        view: &mut ViewAbi,
        shared: &Shared<'_>,
    ) -> Option<(usize, Box<HookFault>)> {
        let phase = phase_of(view);
        shared.enter(Some(point), phase);
        view.context = shared.context();
        view.point = point.number();
        let trail = shared.trail;
        let copies = faults::mark();
        trail.at(point, view);
        let mut index = from;
        let list = Lists::index(point, phase);
        while let Some(&slot) = self.lists.list(list).get(index) {
            if slot.is_filtered && !self.is_due(slot, point, view) {
                index += 1;
                continue;
            }
            shared.set_hook(slot.hook);
            view.learning_rate = shared.learning_rate.get();
            let Some(times) = self.times.get_mut(slot.hook) else {
                break;
            };
            let is_timed = times.begin();
            if is_timed {
                self.begin = if times.is_first() {
                    Begin::read_all()
                } else {
                    Begin::read()
                };
            }
            trail.begin(slot.hook);
            // SAFETY: the instance is alive as long as its hook is in `self.hooks`, whose lists
            // these are; view and error are lent for the call.
            let status = unsafe {
                (slot.call)(
                    slot.instance,
                    point.number(),
                    &raw const *view,
                    &raw mut self.error,
                )
            };
            copies.check();
            if is_timed {
                self.timed(slot, view, shared);
            }
            if self.process.has_other_floats() {
                self.put_back(slot, view, shared);
            }
            if status != 0 {
                let fault = self.fault(slot, status, view);
                if let Some(fault) = self.judge(slot.hook, fault, shared) {
                    trail.end();
                    return Some((index, Box::new(fault)));
                }
                // A disabled hook is gone from the list: its successor stands in its place.
                if self.hooks.get(slot.hook).is_some_and(|hook| hook.disabled) {
                    continue;
                }
            }
            index += 1;
        }
        trail.end();
        view.learning_rate = shared.learning_rate.get();
        None
    }

    /// Whether the hook's filters let this call through.
    fn is_due(&self, slot: Slot, point: Point, view: &ViewAbi) -> bool {
        let Some(hook) = self.hooks.get(slot.hook) else {
            return false;
        };
        let spec = &hook.spec;
        // SAFETY: the host's own view; its texts are alive.
        let stream = unsafe { view.stream.read() }.unwrap_or_default();
        spec.every.is_none_or(|every| every.is_due(point, view))
            && (spec.streams.as_ref()).is_none_or(|streams| streams.iter().any(|s| s == stream))
            && (!is_module(point)
                || hook.listens != Some(false)
                    && hook.modules.get(self.module).copied().unwrap_or(true))
    }

    /// Tells which modules the task has, for the hooks that listen at some alone.
    pub fn set_modules(&mut self, modules: &[ModuleInfo]) {
        for hook in &mut self.hooks {
            hook.modules = match &hook.spec.modules {
                Some(patterns) => (modules.iter())
                    .map(|module| patterns.matches(&module.name))
                    .collect(),
                None => Vec::new(),
            };
        }
    }

    /// Whether a hook of this name is called at modules from now on.
    pub fn set_listening(&mut self, name: &str, listens: bool) {
        let mut hooks = self.hooks.iter_mut();
        let Some(hook) = hooks.find(|hook| hook.spec.name == name) else {
            return;
        };
        // From the first time on its slots are filtered ones.
        if hook.listens.replace(listens).is_none() {
            self.lists = Lists::new(&self.hooks);
        }
    }

    /// Whether any hook listens at a module's point in a phase, filters aside.
    pub fn is_subscribed(&self, point: Point, phase: Phase) -> bool {
        let listens = |slot: &Slot| {
            let hook = self.hooks.get(slot.hook);
            hook.is_some_and(|hook| hook.listens != Some(false))
        };
        self.lists.at(point, phase).iter().any(listens)
    }

    /// Whether a hook is called at a module's point at this moment.
    pub fn listens(&mut self, point: Point, module: usize, view: &ViewAbi) -> bool {
        self.module = module;
        let list = self.lists.at(point, phase_of(view));
        list.iter()
            .any(|&slot| !slot.is_filtered || self.is_due(slot, point, view))
    }

    /// A call that is timed is over; it is also looked at more thoroughly.
    #[cold]
    fn timed(&mut self, slot: Slot, view: &ViewAbi, shared: &Shared<'_>) {
        if let Some(times) = self.times.get_mut(slot.hook) {
            times.end(self.begin);
        }
        if self.process.is_elsewhere() {
            self.put_back(slot, view, shared);
        }
    }

    /// Puts back what a call has changed of what is the whole process's, with a warning.
    #[cold]
    fn put_back(&mut self, slot: Slot, view: &ViewAbi, shared: &Shared<'_>) {
        let changes = self.process.restore();
        let Some(hook) = self.hooks.get_mut(slot.hook) else {
            return;
        };
        hook.changes += 1;
        // As for faults that are ignored.
        if !hook.changes.is_power_of_two() {
            return;
        }
        for change in changes {
            shared.warn(&format!(
                "hook `{}` {change} {}; that was undone",
                hook.spec.name,
                Moment::of(view)
            ));
        }
    }

    #[cold]
    fn fault(&mut self, slot: Slot, status: u32, view: &ViewAbi) -> HookFault {
        let error = EntryError::read(status, &mut self.error);
        let spec = self.hooks.get(slot.hook).map(|hook| &hook.spec);
        HookFault::new(spec, Moment::of(view), error)
    }

    /// What the hook's policy makes of a fault: gives it back where it ends the run.
    #[cold]
    fn judge(&mut self, index: usize, fault: HookFault, shared: &Shared<'_>) -> Option<HookFault> {
        let hook = self.hooks.get_mut(index)?;
        hook.faults += 1;
        match hook.spec.on_error {
            OnError::Fail => return Some(fault),
            OnError::Disable => {
                hook.disabled = true;
                shared.warn(&format!(
                    "{fault}\n  `{}` is off from now on",
                    hook.spec.name
                ));
                self.lists.remove(index);
            }
            // At the first, second, fourth … time: a hook that fails at each call would otherwise
            // bury everything else.
            OnError::Ignore if hook.faults.is_power_of_two() => {
                shared.warn(&format!("{fault}\n  ignored ({} so far)", hook.faults));
            }
            OnError::Ignore => {}
        }
        None
    }

    /// Puts back times that [`take_times`](Dispatcher::take_times) gave.
    pub fn set_times(&mut self, times: Vec<HookTimes>) {
        if times.len() == self.hooks.len() {
            self.times = times;
        }
    }

    /// Switches the hook of this name off; whether there is one.
    pub fn disable(&mut self, name: &str) -> bool {
        let mut hooks = self.hooks.iter_mut().enumerate();
        let Some((index, hook)) = hooks.find(|(_, hook)| hook.spec.name == name) else {
            return false;
        };
        hook.disabled = true;
        self.lists.remove(index);
        true
    }

    /// Blames a hook for something that it asked for; the fault is judged by its policy.
    pub fn blame(
        &mut self,
        hook: &str,
        moment: Moment,
        message: &str,
        shared: &Shared<'_>,
    ) -> Result<(), Box<HookFault>> {
        let error = EntryError {
            status: Status::INVALID.0,
            message: message.to_owned(),
            place: String::new(),
        };
        let index = self.hooks.iter().position(|known| known.spec.name == hook);
        self.judge_state(index.unwrap_or(usize::MAX), moment, error, shared)
    }

    fn judge_state(
        &mut self,
        index: usize,
        moment: Moment,
        error: EntryError,
        shared: &Shared<'_>,
    ) -> Result<(), Box<HookFault>> {
        let fault = HookFault::new(self.hooks.get(index).map(|hook| &hook.spec), moment, error);
        match self.judge(index, fault, shared) {
            Some(fault) => Err(Box::new(fault)),
            None => Ok(()),
        }
    }
}

fn phase_of(view: &ViewAbi) -> Phase {
    Phase::from_number(view.phase).unwrap_or(Phase::Train)
}

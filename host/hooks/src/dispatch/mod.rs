//! Dispatch of hooks: for each mount point and phase, the hooks that override it are called in order.
//!
//! A mount point that no hook overrides has an empty list and costs one check of its length.
//!
//! **Parts.** [`Dispatcher`], in this file, owns the hooks of a run and calls them.
//! - `hooks`: a [`LoadedHook`], its [`HookSpec`], and the [`LifeEvent`]s that messages name.
//! - `lists`: the order of calls, computed once per mount point and phase.
//! - `points`: kinds of mount points. `payload`: what a view carries at some of them. `every`: the filter `every`.
//! - `replacing`: a hook whose instance is replaced in mid-run.
//! - `states`: saving, restoring and dropping hooks. `fault`: [`HookFault`], the error of a failed call.
//! - `walk`: the calls of one list. `times`: sampled times of calls, and with `memory` their growth in memory.
//! - `process`: process-wide state that no call may change.
//!
//! **Flow.** The session creates the hooks; [`Dispatcher::new`] sorts them into lists. The trainer calls
//! [`Dispatcher::call`] at every mount point (`call_module` at a module's, `call_every` where all hooks must be
//! called despite faults). For each hook in the list: evaluate its filters; tell
//! [`BridgeState`] and the [`Trail`](crate::faults::Trail) which hook is called; call it; end the
//! process if it is a forked copy; take the time if this call is sampled; undo changes to process-wide state; handle
//! a fault by the hook's policy. The loop serves the hooks' requests afterwards. Checkpoints use `save_states` and
//! `load_states`; [`Dispatcher::close`] drops the hooks in reverse order at the end.
//!
//! **States.** A hook is on, or off after a fault with the policy `disable` ([`OnError`]) or a call of
//! [`Dispatcher::disable`]: it is then in no list, is not saved, and stays off. With `ignore` it stays on, and with
//! `fail` its fault ends the run. A hook may also switch its calls at modules on and off (`set_listening`).

mod every;
mod fault;
mod hooks;
mod lists;
mod memory;
mod payload;
mod points;
mod process;
mod replacing;
mod states;
mod times;
mod walk;

use sconce_lifecycle::Position;
use sconce_plugin_api::abi::{ErrorAbi, Status, ViewAbi};
use sconce_plugin_api::{Phase, Point};

pub use fault::HookFault;
pub use hooks::{HookSpec, LifeEvent, LoadedHook};
pub use lists::order;
use lists::{Lists, Slot};
pub use payload::Payload;
use points::{WITH_OUTPUTS, is_module};
use process::ProcessState;
use times::Begin;
pub use times::HookTimes;
use walk::Stop;

use crate::bridge::BridgeState;
use crate::hook_id::HookId;
use crate::plugin::entry_error::EntryError;
use sconce_manifest::{OnCrash, OnError};

/// Hooks of a run, in the manifest's order, and the order of their calls.
pub struct Dispatcher {
    hooks: Vec<LoadedHook>,
    lists: Lists,
    /// Times of the hooks in this pass, in the manifest's order.
    times: Vec<HookTimes>,
    /// Index of the task's module whose mount point is being called.
    module: usize,
    /// What hooks see: the position at the mount point being called.
    view: ViewAbi,
    error: ErrorAbi,
    process: ProcessState,
    /// Start of the current call, if it is timed.
    begin: Begin,
}

impl Dispatcher {
    /// Returns a dispatcher for hooks in the manifest's order.
    pub fn new(hooks: Vec<LoadedHook>) -> Dispatcher {
        let lists = Lists::new(&hooks);
        Dispatcher {
            times: vec![HookTimes::default(); hooks.len()],
            hooks,
            lists,
            module: 0,
            view: ViewAbi::EMPTY,
            error: ErrorAbi::new(),
            process: ProcessState::look(),
            begin: Begin::read(),
        }
    }

    /// Hooks, in the manifest's order.
    pub fn hooks(&self) -> &[LoadedHook] {
        &self.hooks
    }

    fn hook(&self, id: HookId) -> Option<&LoadedHook> {
        self.hooks.get(id.position())
    }

    /// Returns and resets the hooks' times, in the manifest's order.
    pub fn take_times(&mut self) -> Vec<HookTimes> {
        let fresh = vec![HookTimes::default(); self.hooks.len()];
        std::mem::replace(&mut self.times, fresh)
    }

    /// Times of the hooks since they were last taken, in the manifest's order.
    pub fn times(&self) -> &[HookTimes] {
        &self.times
    }

    /// Calls the hooks of a point. The first fault of a hook whose policy is `fail` is returned and ends
    /// the run; faults under other policies are reported and skipped.
    #[inline]
    pub fn call(
        &mut self,
        point: Point,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        if self.lists.at(point, position.phase).is_empty() {
            return Ok(());
        }
        self.call_all(point, position, shared, None)
    }

    /// Calls every hook of a point, even after faults, and returns all faults that end the run.
    pub fn call_every(
        &mut self,
        point: Point,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Vec<HookFault> {
        let mut faults = Vec::new();
        let last = self.call_all(point, position, shared, Some(&mut faults));
        faults.extend(last.err().map(|fault| *fault));
        faults
    }

    /// Calls the hooks of a point. A fault that ends the run is returned and ends the calls, or they go on and it is added to `faults`.
    fn call_all(
        &mut self,
        point: Point,
        position: &Position,
        shared: &BridgeState<'_>,
        faults: Option<&mut Vec<HookFault>>,
    ) -> Result<(), Box<HookFault>> {
        shared.enter(Some(point), position.phase);
        position.show_in(&mut self.view);
        self.view.context = shared.context();
        self.view.point = point.number();
        shared.trail.at(point, position);
        let result = match self.walk(0, point, position, shared) {
            Some(stop) => self.go_on(stop, point, position, shared, faults),
            None => Ok(()),
        };
        shared.trail.end();
        if shared.has_host_copies() {
            return self.end_point(position, shared, result);
        }
        result
    }

    /// Goes on with the calls of a point after one after which something is to be done. A function of its own, so that the others don't keep
    /// what it needs.
    #[cold]
    #[inline(never)]
    fn go_on(
        &mut self,
        stop: Stop,
        point: Point,
        position: &Position,
        shared: &BridgeState<'_>,
        mut faults: Option<&mut Vec<HookFault>>,
    ) -> Result<(), Box<HookFault>> {
        let mut next = Some(stop);
        while let Some(stop) = next {
            if let Some(fault) = self.after_stop(&stop, position, shared) {
                match &mut faults {
                    Some(faults) => faults.push(*fault),
                    None => return Err(fault),
                }
            }
            // The successor of a hook that was removed has its index.
            let there = self.lists.at(point, position.phase).get(stop.index);
            let stays = there.is_some_and(|slot| slot.hook == stop.hook);
            let index = stop.index + usize::from(stays);
            next = self.walk(index, point, position, shared);
        }
        Ok(())
    }

    /// Ends a mount point at which hooks saw copies of a device's tensors.
    #[cold]
    #[inline(never)]
    fn end_point(
        &mut self,
        position: &Position,
        shared: &BridgeState<'_>,
        result: Result<(), Box<HookFault>>,
    ) -> Result<(), Box<HookFault>> {
        let Err((hook, error)) = self.end_copies(shared) else {
            return result;
        };
        let spec = hook.and_then(|hook| self.hook(hook)).map(|hook| &hook.spec);
        let fault = HookFault::new(spec, self.event(position), error);
        // All hooks of the point have been called, or the one before has ended the run.
        result.and(Err(Box::new(fault)))
    }

    /// Copies what hooks have written to copies of a device's tensors to the device, and adds the costs of all copies to the
    /// hooks' times. The error is that of the hook that has written, if it is known.
    fn end_copies(&mut self, shared: &BridgeState<'_>) -> Result<(), (Option<HookId>, EntryError)> {
        let ended = shared.end_point();
        for (hook, costs) in shared.take_copy_costs() {
            if let Some(times) = self.times.get_mut(hook.position()) {
                times.copies.add(costs);
            }
        }
        ended.map_err(|(hook, error)| {
            let error = EntryError {
                status: Status::ERROR.0,
                message: format!("what it has written can't be copied to the device: {error}"),
                place: String::new(),
            };
            (hook, error)
        })
    }

    /// Sets the names of the task's modules, for hooks that are called only at some of them.
    pub fn set_modules(&mut self, modules: &[&str]) {
        for hook in &mut self.hooks {
            hook.modules = match &hook.spec.modules {
                Some(patterns) => (modules.iter())
                    .map(|module| patterns.matches(module))
                    .collect(),
                None => Vec::new(),
            };
        }
    }

    /// Sets whether the hook of this name is called at modules from now on.
    pub fn set_listening(&mut self, name: &str, listens: bool) {
        let mut hooks = self.hooks.iter_mut();
        let Some(hook) = hooks.find(|hook| hook.spec.name == name) else {
            return;
        };
        // From the first time on, its slots are marked as filtered.
        if hook.listens.replace(listens).is_none() {
            self.lists = Lists::new(&self.hooks);
        }
    }

    /// Whether any hook is called at a module's point in a phase, ignoring filters.
    pub fn is_subscribed(&self, point: Point, phase: Phase) -> bool {
        let listens = |slot: &Slot| {
            let hook = self.hook(slot.hook);
            hook.is_some_and(|hook| hook.listens != Some(false))
        };
        self.lists.at(point, phase).iter().any(listens)
    }

    /// Whether a hook that is called in a phase while there are a batch's outputs may read them.
    pub fn may_read_outputs(&self, phase: Phase) -> bool {
        let lists = WITH_OUTPUTS
            .iter()
            .map(|&point| self.lists.at(point, phase));
        lists.flatten().any(|slot| {
            let hook = self.hook(slot.hook);
            hook.is_none_or(|hook| hook.spec.may_read_outputs())
        })
    }

    /// Whether a hook that would be called now has to find the loss in its view, as it can't read it on demand.
    pub fn needs_loss(&self, point: Point, position: &Position) -> bool {
        let list = self.lists.at(point, position.phase);
        list.iter().any(|slot| {
            self.hook(slot.hook).is_some_and(|hook| {
                !hook.instance.reads_loss_on_demand()
                    && (!slot.is_filtered || is_due(hook, self.module, point, position))
            })
        })
    }

    /// Whether any hook would be called now at a module's point.
    pub fn listens(&mut self, point: Point, module: usize, position: &Position) -> bool {
        self.module = module;
        let list = self.lists.at(point, position.phase);
        list.iter().any(|slot| {
            let is_due = |hook| is_due(hook, module, point, position);
            !slot.is_filtered || self.hook(slot.hook).is_some_and(is_due)
        })
    }

    /// Does what is due after a call; returns a fault that ends the run.
    fn after_stop(
        &mut self,
        stop: &Stop,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Option<Box<HookFault>> {
        let Stop {
            hook: id, status, ..
        } = *stop;
        if stop.is_timed {
            self.timed(id, position, shared);
        }
        if self.process.has_other_results() {
            self.put_back(id, position, shared);
        }
        if status == Status::OK.0 {
            // A hook in C may succeed after it has dealt with a failure of the host's, whose message is still there.
            if !self.error.message.is_empty() {
                self.error = ErrorAbi::new();
            }
            return None;
        }
        let fault = self.fault(id, status, position);
        self.judge(id, fault, shared).map(Box::new)
    }

    /// Reads again to what process-wide state every call must return: at the start of a run, for which signals have got their
    /// handlers.
    pub fn begin_run(&mut self) {
        self.process = ProcessState::look();
    }

    /// As [`begin_run`](Dispatcher::begin_run), in a process that belongs to another program.
    pub fn begin_run_as_guest(&mut self) {
        self.process = ProcessState::look_as_guest();
    }

    /// Ends a timed call, and makes the checks that are too slow for every call.
    fn timed(&mut self, id: HookId, position: &Position, shared: &BridgeState<'_>) {
        let Some(times) = self.times.get_mut(id.position()) else {
            return;
        };
        let is_thorough = times.end(self.begin);
        // What runs in another process can't change this one.
        let hook = self.hooks.get_mut(id.position());
        let is_apart = hook.is_some_and(|hook| hook.instance.other_process().is_some());
        let is_checked = is_thorough && !is_apart;
        if self.process.has_other_floats() || is_checked && self.process.is_elsewhere() {
            self.put_back(id, position, shared);
        }
    }

    /// Restores process-wide state that a call has changed, with a warning.
    #[cold]
    fn put_back(&mut self, id: HookId, position: &Position, shared: &BridgeState<'_>) {
        let changes = self.process.restore();
        let event = self.event(position);
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return;
        };
        hook.changes += 1;
        // At the first, second, fourth … time, as for ignored faults.
        if !hook.changes.is_power_of_two() {
            return;
        }
        for change in changes {
            shared.warn(&format!(
                "hook `{}` {change} {}; that was undone",
                hook.spec.name, event
            ));
        }
    }

    /// The call in progress, or the last one.
    fn event(&self, position: &Position) -> LifeEvent {
        LifeEvent::at(Point::from_number(self.view.point), position)
    }

    #[cold]
    fn fault(&mut self, id: HookId, status: u32, position: &Position) -> HookFault {
        let mut error = std::mem::take(&mut self.error);
        let error = self.error_of(id, status, &mut error);
        let spec = self.hook(id).map(|hook| &hook.spec);
        HookFault::new(spec, self.event(position), error)
    }

    /// The error of a hook that has answered with this status.
    fn error_of(&self, id: HookId, status: u32, error: &mut ErrorAbi) -> EntryError {
        match self.hook(id) {
            Some(hook) => hook.instance.error(status, error),
            None => EntryError::read(status, error),
        }
    }

    /// Handles a fault by the hook's policy; returns it if it ends the run.
    #[cold]
    fn judge(
        &mut self,
        id: HookId,
        fault: HookFault,
        shared: &BridgeState<'_>,
    ) -> Option<HookFault> {
        if fault.error.has_ended() {
            return self.judge_ending(id, fault, shared);
        }
        if fault.error.is_panic() {
            return self.judge_panic(id, fault, shared);
        }
        let hook = self.hooks.get_mut(id.position())?;
        hook.faults += 1;
        match hook.spec.on_error {
            OnError::Fail => return Some(fault),
            OnError::Disable => {
                hook.disabled = true;
                shared.warn(&format!(
                    "{fault}\n  `{}` is off from now on",
                    hook.spec.name
                ));
                self.lists.remove(id);
            }
            // At the first, second, fourth … time: a hook that fails at every call would otherwise
            // drown out all other messages.
            OnError::Ignore if hook.faults.is_power_of_two() => {
                shared.warn(&format!("{fault}\n  ignored ({} so far)", hook.faults));
            }
            OnError::Ignore => {}
        }
        None
    }

    /// Handles a panic by the hook's policy; returns the fault if it ends the run.
    ///
    /// A hook that has panicked may be half changed: it is never called again as it is, nor is its state saved.
    #[cold]
    fn judge_panic(
        &mut self,
        id: HookId,
        fault: HookFault,
        shared: &BridgeState<'_>,
    ) -> Option<HookFault> {
        let hook = self.hooks.get_mut(id.position())?;
        if hook.spec.on_panic == OnCrash::Fail {
            return Some(fault);
        }
        hook.faults += 1;
        hook.panics += 1;
        self.lists.remove(id);
        let (name, count) = (&hook.spec.name, hook.panics);
        let point = Point::from_number(self.view.point);
        let is_over = matches!(point, Some(Point::AfterRun | Point::OnException));
        match hook.spec.on_panic {
            OnCrash::Restart(most) if count <= most && hook.blueprint.is_some() && !is_over => {
                hook.awaits_restart = true;
                shared.warn(&format!(
                    "{fault}\n  `{name}` is recreated from its last state ({count} of {most})"
                ));
                shared.requests.ask_restart(id);
            }
            policy => {
                hook.disabled = true;
                let why = match policy {
                    OnCrash::Restart(most) if count > most => format!(", after {most} restarts"),
                    OnCrash::Restart(_) if hook.blueprint.is_none() => {
                        ": it is part of this program and can't be recreated".to_owned()
                    }
                    _ => String::new(),
                };
                shared.warn(&format!("{fault}\n  `{name}` is off from now on{why}"));
            }
        }
        None
    }

    /// Handles the end of a hook's process by the hook's policy; returns the fault if it ends the run.
    #[cold]
    fn judge_ending(
        &mut self,
        id: HookId,
        fault: HookFault,
        shared: &BridgeState<'_>,
    ) -> Option<HookFault> {
        // Nothing of it can be called any more.
        self.lists.remove(id);
        let hook = self.hooks.get_mut(id.position())?;
        hook.faults += 1;
        hook.endings += 1;
        if let Some(proxy) = hook.instance.other_process()
            && proxy.was_seen_by_others()
        {
            return Some(fault);
        }
        let name = &hook.spec.name;
        match hook.spec.on_crash {
            OnCrash::Fail => return Some(fault),
            OnCrash::Restart(most) if hook.endings <= most => {
                let count = hook.endings;
                shared.warn(&format!(
                    "{fault}\n  `{name}` is restarted ({count} of {most})"
                ));
                shared.requests.ask_restart(id);
            }
            OnCrash::Restart(most) => {
                hook.disabled = true;
                shared.warn(&format!(
                    "{fault}\n  `{name}` is disabled from now on, after {most} restarts"
                ));
            }
            OnCrash::Disable => {
                hook.disabled = true;
                shared.warn(&format!("{fault}\n  `{name}` is disabled from now on"));
            }
        }
        None
    }

    /// Restores times returned by [`take_times`](Dispatcher::take_times).
    pub fn set_times(&mut self, times: Vec<HookTimes>) {
        if times.len() == self.hooks.len() {
            self.times = times;
        }
    }

    /// Switches the hook of this name off; returns whether there is one.
    pub fn disable(&mut self, name: &str) -> bool {
        let mut hooks = self.hooks.iter_mut().enumerate();
        let Some((index, hook)) = hooks.find(|(_, hook)| hook.spec.name == name) else {
            return false;
        };
        hook.disabled = true;
        self.lists.remove(HookId::at(index));
        true
    }

    /// Reports a request as a fault of the hook that made it, to be handled by its policy.
    pub fn blame(
        &mut self,
        hook: &str,
        position: &Position,
        message: &str,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let error = EntryError {
            status: Status::INVALID.0,
            message: message.to_owned(),
            place: String::new(),
        };
        let index = self.hooks.iter().position(|known| known.spec.name == hook);
        let event = self.event(position);
        match index {
            Some(index) => self.judge_state(HookId::at(index), event, error, shared),
            // The request came from outside.
            None => Ok(()),
        }
    }

    fn judge_state(
        &mut self,
        id: HookId,
        event: LifeEvent,
        error: EntryError,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let fault = HookFault::new(self.hook(id).map(|hook| &hook.spec), event, error);
        match self.judge(id, fault, shared) {
            Some(fault) => Err(Box::new(fault)),
            None => Ok(()),
        }
    }
}

/// Whether the filters of a hook let a call through, at the module with this index if it is a module's point.
fn is_due(hook: &LoadedHook, module: usize, point: Point, position: &Position) -> bool {
    let spec = &hook.spec;
    let stream = position.phase.name();
    spec.every
        .is_none_or(|every| every::is_due(every, point, position))
        && (spec.streams.as_ref()).is_none_or(|streams| streams.iter().any(|s| s == stream))
        && (!is_module(point)
            || hook.listens != Some(false) && hook.modules.get(module).copied().unwrap_or(true))
}

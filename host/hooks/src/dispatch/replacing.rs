//! A hook whose instance is replaced in mid-run.

use std::ptr;

use sconce_lifecycle::Position;
use sconce_plugin_api::abi::{ErrorAbi, Status, ViewAbi};
use sconce_plugin_api::{Phase, Point};

use super::{Dispatcher, HookFault, HookSpec, LifeEvent, Lists, Payload};
use crate::bridge::BridgeState;
use crate::faults::PluginFunction;
use crate::hook_id::HookId;
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::entry_error::EntryError;
use crate::plugin::new_library::NewLibrary;
use crate::record::LibraryId;

impl Dispatcher {
    /// The state from which a hook that has panicked, or whose process has ended, is restarted.
    pub fn last_state(&mut self, id: HookId) -> Option<Vec<u8>> {
        let hook = self.hooks.get_mut(id.position())?;
        if hook.awaits_restart {
            return hook.last_state.clone();
        }
        let proxy = hook.instance.other_process()?;
        proxy.last_state().map(<[u8]>::to_vec)
    }

    /// Creates a hook again, in the place of its instance, which is dropped.
    pub fn create_again(
        &mut self,
        id: HookId,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return Ok(());
        };
        let Some(blueprint) = hook.blueprint.clone() else {
            return Ok(());
        };
        shared.enter(None, position.phase);
        shared.set_hook(id);
        let create = || blueprint.create(shared);
        let created = shared.trail.around(id, PluginFunction::New, create);
        let left_out = shared.requests.take_left_out();
        match created {
            Ok(instance) => {
                hook.instance = instance;
                hook.awaits_restart = false;
                hook.listens = None;
                hook.spec.points.retain(|point| !left_out.contains(point));
                self.lists = Lists::new(&self.hooks);
                Ok(())
            }
            Err(error) => Err(self.failed(id, LifeEvent::Create, error)),
        }
    }

    /// Calls one hook at a mount point, if it overrides it; its policy is not asked.
    pub fn call_one(
        &mut self,
        id: HookId,
        point: Point,
        payload: Option<Payload<'_>>,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let Some(hook) = self.hooks.get(id.position()) else {
            return Ok(());
        };
        if !hook.spec.is_called_at(point, Phase::Train) {
            return Ok(());
        }
        let (instance, call) = hook.instance.entry();
        shared.enter(Some(point), position.phase);
        shared.set_hook(id);
        let mut view = ViewAbi::EMPTY;
        position.show_in(&mut view);
        view.context = shared.context();
        view.point = point.number();
        view.learning_rate = shared.optimizer.learning_rate.get();
        view.payload = payload.map_or(ptr::null(), Payload::pointer);
        let mut error = ErrorAbi::new();
        shared.trail.at(point, position);
        shared.trail.begin(id);
        // SAFETY: the instance is that of a hook of this dispatcher; view and error are valid for the call.
        let status = unsafe { call(instance, point.number(), &raw const view, &raw mut error) };
        shared.trail.end();
        let result = if status == Status::OK.0 {
            Ok(())
        } else {
            Err(self.error_of(id, status, &mut error))
        };
        let ended = self.end_copies(shared).map_err(|(_, error)| error);
        result
            .and(ended)
            .map_err(|error| self.failed(id, LifeEvent::at(Some(point), position), error))
    }

    /// The hook of this name.
    pub fn id_of(&self, name: &str) -> Option<HookId> {
        let mut hooks = self.hooks.iter();
        hooks
            .position(|hook| hook.spec.name == name)
            .map(HookId::at)
    }

    /// All hooks, in the manifest's order.
    pub fn ids_in_order(&self) -> impl Iterator<Item = HookId> + use<> {
        (0..self.hooks.len()).map(HookId::at)
    }

    /// How a hook is created, if it is of a library.
    pub fn blueprint_of(&self, id: HookId) -> Option<(&HookSpec, &HookBlueprint)> {
        let hook = self.hook(id)?;
        Some((&hook.spec, hook.blueprint.as_ref()?))
    }

    /// The state of one hook; the error says why there is none.
    pub fn state_of(&mut self, id: HookId, shared: &BridgeState<'_>) -> Result<Vec<u8>, String> {
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return Err("the run has no such hook".to_owned());
        };
        if hook.is_out() {
            return Err("it is switched off".to_owned());
        }
        let save = || hook.instance.save_state();
        let saved = shared.trail.around(id, PluginFunction::Save, save);
        saved.map_err(|error| self.failed(id, LifeEvent::Save, error).to_string())
    }

    /// Creates a hook from another library and drops the old instance; returns what the library was before. The error says
    /// why nothing was changed.
    pub fn exchange(
        &mut self,
        id: HookId,
        blueprint: HookBlueprint,
        library: Option<&NewLibrary>,
        phase: Phase,
        shared: &BridgeState<'_>,
    ) -> Result<LibraryId, String> {
        shared.enter(None, phase);
        shared.set_hook(id);
        let create = || blueprint.create(shared);
        let created = shared.trail.around(id, PluginFunction::New, create);
        let left_out = shared.requests.take_left_out();
        let instance = created.map_err(|error| {
            let message = self.failed(id, LifeEvent::Create, error).to_string();
            format!("its new instance can't be created: {message}")
        })?;
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return Err("the run has no such hook".to_owned());
        };
        let old = std::mem::replace(&mut hook.instance, instance);
        hook.listens = None;
        hook.blueprint = Some(blueprint);
        let before = LibraryId {
            version: hook.spec.version.clone(),
            sha256: hook.spec.sha256.clone(),
            script: None,
        };
        if let Some(library) = library {
            hook.spec.version.clone_from(&library.version);
            hook.spec.sha256.clone_from(&library.sha256);
            let points = library.hook.points.iter();
            hook.spec.points = points
                .filter_map(|point| Point::from_number(point.number))
                .collect();
        }
        hook.spec.points.retain(|point| !left_out.contains(point));
        let close = || old.close();
        if let Err(error) = shared.trail.around(id, PluginFunction::Drop, close) {
            let fault = self.failed(id, LifeEvent::Drop, error);
            shared.warn(&fault.to_string());
        }
        self.lists = Lists::new(&self.hooks);
        Ok(before)
    }

    /// Handles a fault of a hook by its policy.
    pub fn blame_fault(
        &mut self,
        id: HookId,
        fault: HookFault,
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        match self.judge(id, fault, shared) {
            Some(fault) => Err(Box::new(fault)),
            None => Ok(()),
        }
    }

    /// Restores the state of one hook; its policy is not asked.
    pub fn load_state(
        &mut self,
        id: HookId,
        state: &[u8],
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return Ok(());
        };
        let load = || hook.instance.load_state(state);
        let loaded = shared.trail.around(id, PluginFunction::Load, load);
        loaded.map_err(|error| self.failed(id, LifeEvent::Load, error))
    }

    /// Switches a hook off that could not be restarted.
    pub fn give_up(&mut self, id: HookId, fault: &HookFault, shared: &BridgeState<'_>) {
        self.lists.remove(id);
        let Some(hook) = self.hooks.get_mut(id.position()) else {
            return;
        };
        hook.awaits_restart = false;
        hook.disabled = true;
        let name = &hook.spec.name;
        shared.warn(&format!(
            "{fault}\n  `{name}` can't be restarted and is disabled from now on"
        ));
    }

    fn failed(&self, id: HookId, moment: LifeEvent, error: EntryError) -> Box<HookFault> {
        let spec = self.hook(id).map(|hook| &hook.spec);
        Box::new(HookFault::new(spec, moment, error))
    }
}

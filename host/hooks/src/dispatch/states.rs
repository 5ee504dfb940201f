//! Hooks' states, for checkpoints, and the dropping of hooks.

use std::collections::HashMap;

use super::{Dispatcher, HookFault, LifeEvent};
use crate::bridge::BridgeState;
use crate::faults::PluginFunction;
use crate::hook_id::HookId;
use crate::plugin::entry_error::EntryError;
use sconce_manifest::OnError;

impl Dispatcher {
    fn ids(&self) -> impl Iterator<Item = HookId> + use<> {
        (0..self.hooks.len()).map(HookId::at)
    }

    /// Saves the states of all hooks, in the manifest's order; `None` for hooks that are off. A fault
    /// is handled by the hook's policy.
    pub fn save_states(
        &mut self,
        shared: &BridgeState<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>, Box<HookFault>> {
        let mut states = Vec::new();
        for id in self.ids() {
            states.push(match self.save_state(id, shared) {
                Some(Err(error)) => {
                    self.judge_state(id, LifeEvent::Save, error, shared)?;
                    // The state from which a hook that has panicked is restarted.
                    self.hook(id)
                        .filter(|hook| hook.awaits_restart)
                        .and_then(|hook| hook.last_state.clone())
                }
                Some(Ok(state)) => Some(state),
                None => None,
            });
        }
        Ok(states)
    }

    /// Saves the states of all hooks after a failure: `None` for those that fail, and their faults
    /// are returned.
    pub fn save_states_of_all(
        &mut self,
        shared: &BridgeState<'_>,
    ) -> (Vec<Option<Vec<u8>>>, Vec<HookFault>) {
        let mut states = Vec::new();
        let mut faults = Vec::new();
        for id in self.ids() {
            states.push(match self.save_state(id, shared) {
                Some(Err(error)) => {
                    let spec = self.hook(id).map(|hook| &hook.spec);
                    faults.push(HookFault::new(spec, LifeEvent::Save, error));
                    None
                }
                Some(Ok(state)) => Some(state),
                None => None,
            });
        }
        (states, faults)
    }

    fn save_state(
        &mut self,
        id: HookId,
        shared: &BridgeState<'_>,
    ) -> Option<Result<Vec<u8>, EntryError>> {
        let hook = self
            .hooks
            .get_mut(id.position())
            .filter(|hook| !hook.disabled)?;
        if let Some(ended) = hook
            .instance
            .other_process()
            .filter(|proxy| proxy.has_ended())
        {
            // It has the state from which a restart would begin.
            return ended.last_state().map(|state| Ok(state.to_vec()));
        }
        if hook.awaits_restart {
            return hook.last_state.clone().map(Ok);
        }
        let save = || hook.instance.save_state();
        let saved = shared.trail.around(id, PluginFunction::Save, save);
        if let Ok(state) = &saved {
            hook.keep_state(state);
        }
        Some(saved)
    }

    /// Restores the hooks' states by name; a hook without a saved state is left as it is.
    pub fn load_states(
        &mut self,
        states: &[(String, Vec<u8>)],
        shared: &BridgeState<'_>,
    ) -> Result<(), Box<HookFault>> {
        let states: HashMap<&str, &[u8]> = states
            .iter()
            .map(|(name, state)| (name.as_str(), state.as_slice()))
            .collect();
        for id in self.ids() {
            let Some(hook) = self
                .hooks
                .get_mut(id.position())
                .filter(|hook| !hook.disabled)
            else {
                continue;
            };
            let Some(state) = states.get(hook.spec.name.as_str()) else {
                continue;
            };
            hook.keep_state(state);
            if hook.awaits_restart {
                continue;
            }
            let load = || hook.instance.load_state(state);
            if let Err(error) = shared.trail.around(id, PluginFunction::Load, load) {
                self.judge_state(id, LifeEvent::Load, error, shared)?;
            }
        }
        Ok(())
    }

    /// Drops the hooks in reverse order and returns the faults that end a run.
    pub fn close(self, shared: &BridgeState<'_>) -> Vec<HookFault> {
        let mut faults = Vec::new();
        for (index, hook) in self.hooks.into_iter().enumerate().rev() {
            let close = || hook.instance.close();
            if let Err(error) = shared
                .trail
                .around(HookId::at(index), PluginFunction::Drop, close)
            {
                let fault = HookFault::new(Some(&hook.spec), LifeEvent::Drop, error);
                match hook.spec.on_error {
                    OnError::Fail => faults.push(fault),
                    OnError::Disable | OnError::Ignore => shared.warn(&fault.to_string()),
                }
            }
        }
        faults
    }
}

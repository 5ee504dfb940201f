//! Gives hooks new libraries in mid-run.
//!
//! At a safe point (between two epochs, or two iterations if the manifest says so): the hook's state is saved; the new
//! library is rehearsed with it in another process, then opened here, and a new instance is created; the old one is
//! dropped, and the new one takes its place as if the run were resumed here (`recreate`). Until the old instance is
//! dropped any failure leaves it as it is. Libraries are never unloaded.

use std::time::Instant;

use super::recreate::Recreation;
use crate::checkpoint::{HistoryRecord, LibraryId, MOST_RECORDS};
use crate::digest;
use crate::hook_id::HookId;
use crate::manifest::ReloadPolicy;
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::new_library::NewLibrary;
use crate::run::failure::RunError;
use crate::run::outside::reloads::{
    LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, ReloadService,
};

impl Recreation<'_, '_> {
    /// Gives hooks the libraries that an order names, and answers who asked. No checkpoint may be in writing: it has the
    /// states of before.
    pub(in crate::run) fn serve(
        &mut self,
        order: ReloadOrder,
        service: &ReloadService<'_>,
    ) -> Result<(), RunError> {
        let mut results = Vec::new();
        for ReloadCandidate { hook, library } in order.hooks {
            let found = library.and_then(|library| Ok((self.may_reload(&hook)?, library)));
            let result = match found {
                Ok((id, library)) => self.reload(id, &hook, &library, service)?,
                Err(reason) => Err(reason),
            };
            results.push(self.reported(hook, result));
        }
        if let Some(request) = &order.request {
            service.reloader.answer(request, &results);
        }
        Ok(())
    }

    /// The hook of this name, or why it can't be given a new library.
    fn may_reload(&self, name: &str) -> Result<HookId, String> {
        let hook = self.hooks.id_of(name);
        let id = hook.ok_or_else(|| "the run has no such hook".to_owned())?;
        if !self.saver.has_room_in_history(false) {
            return Err(format!("a run can be changed {MOST_RECORDS} times at most"));
        }
        Ok(id)
    }

    /// Gives one hook a new library; the result says what was done, or why not.
    fn reload(
        &mut self,
        id: HookId,
        name: &str,
        library: &NewLibrary,
        service: &ReloadService<'_>,
    ) -> Result<Result<String, String>, RunError> {
        let begin = Instant::now();
        let prepared = self.prepared(id, library, service);
        let (blueprint, state) = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(reason)),
        };
        let old = self
            .hooks
            .blueprint_of(id)
            .map(|(_, old)| old.opened.clone());
        let script = library.script.as_ref();
        let file = script.and_then(|script| script.path.as_ref());
        let code = file.and_then(|file| std::fs::read(file).ok());
        let swapped = Instant::now();
        let mut before = match self.exchange(id, blueprint, Some(library), &state)? {
            Ok(before) => before,
            Err(reason) => return Ok(Err(reason)),
        };
        before.script = script.and_then(|script| script.before.clone());
        let after = LibraryId {
            version: library.version.clone(),
            sha256: library.sha256.clone(),
            script: code.as_deref().map(digest::fingerprint),
        };
        if before.sha256 != after.sha256 {
            if let Some(old) = old {
                service.reloader.keep(&before.sha256, &old);
            }
            service.reloader.keep(&after.sha256, &library.file.file);
        }
        if let (Some(sha256), Some(code)) = (&after.script, &code) {
            service.reloader.keep_script(sha256, code);
        }
        let now = LoadedCode {
            sha256: after.sha256.clone(),
            script: after.script.clone(),
        };
        service.waiting.note_loaded(name, now);
        let message = format!(
            "{} to {}, with a state of {} bytes, in {:.1} ms ({:.1} ms for the change)",
            before.shown(),
            after.shown(),
            state.len(),
            begin.elapsed().as_secs_f64() * 1e3,
            swapped.elapsed().as_secs_f64() * 1e3,
        );
        let record = HistoryRecord::Reload {
            hook: name.to_owned(),
            epoch: self.position.epoch,
            iteration: self.position.iteration,
            update: self.position.update,
            from: before,
            to: after,
            state_bytes: state.len() as u64,
        };
        self.saver.note_history(record);
        Ok(Ok(message))
    }

    /// Saves a hook's state, and prepares its new library with it.
    fn prepared(
        &mut self,
        id: HookId,
        library: &NewLibrary,
        service: &ReloadService<'_>,
    ) -> Result<(HookBlueprint, Vec<u8>), String> {
        let state = self.hooks.state_of(id, self.shared)?;
        let Some((spec, old)) = self.hooks.blueprint_of(id) else {
            return Err("it is part of the program".to_owned());
        };
        if spec.reload == ReloadPolicy::Never {
            return Err(
                "its entry in the manifest does not allow it (`reload`, `sha256`)".to_owned(),
            );
        }
        let requests = self.shared.requests.set_aside();
        self.shared.set_hook(id);
        self.shared.enter(None, self.position.phase);
        self.shared.reinstate(true);
        let prepared = service
            .reloader
            .prepare(library, old, spec, &state, self.shared);
        self.shared.reinstate(false);
        self.shared.requests.put_back(requests);
        Ok((prepared?, state))
    }

    /// Loads all hooks again, each with its own library. No checkpoint may be in writing.
    pub(in crate::run) fn load_all_again(&mut self) -> Result<(), RunError> {
        let ids = self.hooks.ids_in_order();
        ids.into_iter().try_for_each(|id| self.load_again(id))
    }

    fn load_again(&mut self, id: HookId) -> Result<(), RunError> {
        let Some((_, blueprint)) = self.hooks.blueprint_of(id) else {
            return Ok(());
        };
        let blueprint = blueprint.clone();
        let Ok(state) = self.hooks.state_of(id, self.shared) else {
            return Ok(());
        };
        if let Err(reason) = self.exchange(id, blueprint, None, &state)? {
            self.shared.warn(&reason);
        }
        Ok(())
    }

    /// Logs and records the result for one hook.
    fn reported(&mut self, hook: String, result: Result<String, String>) -> ReloadResult {
        match result {
            Ok(message) => {
                self.shared
                    .info(&format!("`{hook}` is reloaded: {message}"));
                ReloadResult {
                    hook,
                    is_reloaded: true,
                    message,
                }
            }
            Err(reason) => {
                let message = format!("{reason}; the old one goes on");
                self.shared
                    .warn(&format!("`{hook}` is not reloaded: {message}"));
                self.saver.note_history(HistoryRecord::ReloadRefused {
                    hook: hook.clone(),
                    epoch: self.position.epoch,
                    iteration: self.position.iteration,
                    reason,
                });
                ReloadResult {
                    hook,
                    is_reloaded: false,
                    message,
                }
            }
        }
    }
}

//! Gives hooks new libraries in mid-run.
//!
//! At a safe point (between two epochs, or two iterations if the manifest says so): the hook's state is saved; the new
//! library is rehearsed with it in another process, then opened here, and a new instance is created; the old one is
//! dropped, and the new one takes its place as if the run were resumed here (`reinstate`). Until the old instance is
//! dropped any failure leaves it as it is. Libraries are never unloaded.

use std::time::Instant;

use super::waiting::{LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, ReloadService};
use crate::checkpoint::{HistoryRecord, LibraryId, MOST_RECORDS};
use crate::digest;
use crate::hook_id::HookId;
use crate::manifest::{ReloadAt, ReloadPolicy};
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::new_library::NewLibrary;
use crate::run::Trainer;
use crate::run::failure::{Leave, RunError};

impl<'run> Trainer<'run> {
    /// Lets hooks' libraries be loaded again.
    pub fn reloading(mut self, service: ReloadService<'run>) -> Self {
        self.outside.reloads = Some(service);
        self
    }
}

impl Trainer<'_> {
    /// Asks for all libraries that have changed.
    pub(in crate::run) fn look_for_libraries(&self) {
        match &self.outside.reloads {
            Some(service) => {
                self.shared.info("looking for libraries that have changed");
                service.reloader.ask();
            }
            None => self.shared.warn("this run can't load libraries again"),
        }
    }

    /// Whether there is something for [`reload_waiting`](Trainer::reload_waiting) to do.
    #[inline]
    pub(in crate::run) fn is_asked_to_reload(&self) -> bool {
        let reloads = self.outside.reloads.as_ref();
        reloads.is_some_and(|reloads| reloads.waiting.is_asked() || reloads.every.is_some())
    }

    /// Serves what waits, if this is the place for it. Must only be called between two iterations.
    #[cold]
    pub(in crate::run) fn reload_waiting(&mut self) -> Result<(), Leave> {
        let Some(service) = &self.outside.reloads else {
            return Ok(());
        };
        if self.position.evaluation.is_under_way {
            return Ok(());
        }
        let (waiting, every, at) = (service.waiting.clone(), service.every, service.at);
        if every.is_some_and(|every| self.position.iteration.is_multiple_of(every)) {
            self.reload_all()?;
        }
        if at == ReloadAt::Epoch && self.position.begun.is_some() {
            return Ok(());
        }
        while let Some(order) = waiting.next() {
            self.reload_order(order)?;
        }
        Ok(())
    }

    fn reload_order(&mut self, order: ReloadOrder) -> Result<(), Leave> {
        let mut results = Vec::new();
        for ReloadCandidate { hook, library } in order.hooks {
            let result = match library {
                Ok(library) => self.reload(&hook, &library)?,
                Err(reason) => Err(reason),
            };
            let result = self.reported(hook, result);
            results.push(result);
        }
        if let (Some(request), Some(service)) = (&order.request, &self.outside.reloads) {
            service.reloader.answer(request, &results);
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
                self.note_history(HistoryRecord::ReloadRefused {
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

    /// Adds to the run's history, if there is room: as much for changes as for refusals.
    pub(in crate::run) fn note_history(&mut self, record: HistoryRecord) {
        if self.count_in_history(record.is_refusal()) < MOST_RECORDS {
            self.saver.history.push(record);
        }
    }

    /// Number of refusals, or of changes.
    fn count_in_history(&self, of_refusals: bool) -> usize {
        let history = self.saver.history.iter();
        history
            .filter(|record| record.is_refusal() == of_refusals)
            .count()
    }

    /// Gives one hook a new library; the result says what was done, or why not.
    fn reload(
        &mut self,
        name: &str,
        library: &NewLibrary,
    ) -> Result<Result<String, String>, Leave> {
        let Some(id) = self.hooks.id_of(name) else {
            return Ok(Err("the run has no such hook".to_owned()));
        };
        if self.count_in_history(false) >= MOST_RECORDS {
            return Ok(Err(format!(
                "a run can be changed {MOST_RECORDS} times at most"
            )));
        }
        let begin = Instant::now();
        // A checkpoint that is being written has the states of before.
        self.settle_writing()?;
        let prepared = self.prepared(id, library);
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
        if let Some(service) = &self.outside.reloads {
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
        }
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
        self.note_history(record);
        Ok(Ok(message))
    }

    /// Saves a hook's state, and prepares its new library with it.
    fn prepared(
        &mut self,
        id: HookId,
        library: &NewLibrary,
    ) -> Result<(HookBlueprint, Vec<u8>), String> {
        let state = self.hooks.state_of(id, self.shared)?;
        let Some(service) = &self.outside.reloads else {
            return Err("this run can't load libraries again".to_owned());
        };
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

    /// Puts a new instance in the place of the old one; returns the library before, or why nothing was changed.
    fn exchange(
        &mut self,
        id: HookId,
        blueprint: HookBlueprint,
        library: Option<&NewLibrary>,
        state: &[u8],
    ) -> Result<Result<LibraryId, String>, Leave> {
        let requests = self.shared.requests.set_aside();
        self.shared.reinstate(true);
        let exchanged =
            self.hooks
                .exchange(id, blueprint, library, self.position.phase, self.shared);
        self.shared.reinstate(false);
        self.shared.requests.put_back(requests);
        let before = match exchanged {
            Ok(before) => before,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Err(fault) = self.reinstate(id, Some(state))? {
            self.hooks
                .blame_fault(id, *fault, self.shared)
                .map_err(RunError::Hook)?;
        }
        Ok(Ok(before))
    }

    /// Loads every hook again, with its own library.
    fn reload_all(&mut self) -> Result<(), Leave> {
        for id in self.hooks.ids_in_order() {
            let Some(blueprint) = self.hooks.blueprint_of(id).map(|(_, known)| known.clone())
            else {
                continue;
            };
            self.settle_writing()?;
            let Ok(state) = self.hooks.state_of(id, self.shared) else {
                continue;
            };
            if let Err(reason) = self.exchange(id, blueprint, None, &state)? {
                self.shared.warn(&reason);
            }
        }
        Ok(())
    }
}

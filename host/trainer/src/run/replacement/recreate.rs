//! Puts a new instance of a hook in the place of an old one in mid-run: after its process has ended, or when its library
//! has been reloaded.
//!
//! The new instance is called as in a run that is resumed here: `before_run`, `before_loop` of the training, then its
//! state is restored, then `after_load_checkpoint` and, within an epoch, `before_epoch` with the counters of the epoch's
//! start. What it changes and requests meanwhile took effect when it was first called there, and is undone, as for an
//! epoch that is reopened. Nothing is done twice, so the run goes on with the same bits.

use sconce_lifecycle::TrainingStage;
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi};
use sconce_plugin_api::{Phase, Point};

use crate::checkpoint::HistoryRecord;
use crate::dispatch::{HookFault, Payload};
use crate::hook_id::HookId;
use crate::run::Trainer;
use crate::run::failure::{Leave, RunError};

/// Result of putting a new instance in the place of an old one: its fault, if it had one.
type Reinstated = Result<(), Box<HookFault>>;

impl Trainer<'_> {
    /// Restarts hooks whose processes have ended. Must only be called between two iterations.
    #[cold]
    pub(in crate::run) fn restart_ended(&mut self) -> Result<(), Leave> {
        for id in self.shared.requests.take_restarts() {
            let state = self.hooks.last_state(id);
            self.shared.reinstate(true);
            let created = self.hooks.create_again(id, &self.position, self.shared);
            self.shared.reinstate(false);
            self.note_restart(id);
            let restarted = match created {
                Ok(()) => self.reinstate(id, state.as_deref())?,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = restarted {
                self.hooks
                    .give_up(id, &fault, self.shared)
                    .map_err(RunError::Hook)?;
            }
        }
        Ok(())
    }

    fn note_restart(&mut self, id: HookId) {
        let hooks = self.hooks.hooks();
        if let Some(hook) = hooks.get(id.position()) {
            let hook = hook.spec.name.clone();
            self.note_history(HistoryRecord::Restart {
                hook,
                epoch: self.position.epoch,
                iteration: self.position.iteration,
            });
        }
    }

    /// Calls a new instance of a hook as in a run that is resumed here.
    pub(in crate::run) fn reinstate(
        &mut self,
        id: HookId,
        state: Option<&[u8]>,
    ) -> Result<Reinstated, Leave> {
        let torn = |position: &_, error| RunError::task("restarting a hook", position, error);
        let snapshot = self
            .epoch_snapshot()
            .map_err(|error| torn(&self.position, error))?;
        let position = self.position.clone();
        let requests = self.shared.requests.set_aside();
        self.shared.reinstate(true);
        let result = self.call_as_resumed(id, state);
        self.shared.reinstate(false);
        let listens = self.shared.requests.take_listening();
        self.shared.requests.put_back(requests);
        self.position = position;
        self.put_back(snapshot)
            .map_err(|error| torn(&self.position, error))?;
        for (hook, listens) in listens {
            self.hooks.set_listening(&hook, listens);
        }
        Ok(result)
    }

    fn call_as_resumed(&mut self, id: HookId, state: Option<&[u8]>) -> Reinstated {
        let position = &mut self.position;
        position.phase = Phase::Train;
        self.hooks
            .call_one(id, Point::BeforeRun, None, &self.position, self.shared)?;
        self.hooks
            .call_one(id, Point::BeforeLoop, None, &self.position, self.shared)?;
        let Some(state) = state else {
            return self.reopen_for(id);
        };
        self.hooks.load_state(id, state, self.shared)?;
        let path = self.saver.last_checkpoint.clone().unwrap_or_default();
        let tag = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let path = path.to_string_lossy().into_owned();
        let checkpoint = CheckpointAbi {
            path: TextAbi::new(&path),
            tag: TextAbi::new(&tag),
            hook: TextAbi::EMPTY,
            error: TextAbi::EMPTY,
            bytes: 0,
            seconds: 0.0,
            reference: TextAbi::EMPTY,
            missing: TextAbi::EMPTY,
        };
        self.hooks.call_one(
            id,
            Point::AfterLoadCheckpoint,
            Some(Payload::Checkpoint(&checkpoint)),
            &self.position,
            self.shared,
        )?;
        self.reopen_for(id)
    }

    /// Calls `before_epoch` for the epoch in progress, if one is.
    fn reopen_for(&mut self, id: HookId) -> Reinstated {
        let Some(start) = self.position.begun else {
            return Ok(());
        };
        if self.position.stage != TrainingStage::Epoch {
            return Ok(());
        }
        self.position.show_start(start);
        self.position.is_reopening = true;
        // The caller restores the position.
        self.hooks
            .call_one(id, Point::BeforeEpoch, None, &self.position, self.shared)
    }
}

//! Puts a new instance of a hook in the place of an old one in mid-run: after it has panicked, after its process has ended,
//! or when its library has been reloaded.
//!
//! The new instance is called as in a run that is resumed here: `before_run`, `before_loop` of the training, then its
//! state is restored, then `after_load_checkpoint` and, within an epoch, `before_epoch` with the counters of the epoch's
//! start. What it changes and requests meanwhile took effect when it was first called there, and is undone, as for an
//! epoch that is reopened. Nothing is done twice, so the run goes on with the same bits.

use sconce_lifecycle::{Position, TrainingStage};
use sconce_plugin_api::{Phase, Point};

use crate::bridge::BridgeState;
use crate::checkpoint::{HistoryRecord, LibraryId};
use crate::dispatch::{Dispatcher, HookFault, Payload};
use crate::hook_id::HookId;
use crate::parameters::Parameters;
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::new_library::NewLibrary;
use crate::run::checkpoints::epoch_snapshot::EpochSnapshot;
use crate::run::checkpoints::save_options::CheckpointResult;
use crate::run::checkpoints::saver::Saver;
use crate::run::failure::RunError;

/// Result of putting a new instance in the place of an old one: its fault, if it had one.
type Reinstated = Result<(), Box<HookFault>>;

/// Puts new instances in the places of old ones, between two iterations.
pub(in crate::run) struct Recreation<'a, 'run> {
    pub(in crate::run) hooks: &'a mut Dispatcher,
    pub(in crate::run) shared: &'a BridgeState<'run>,
    pub(in crate::run) position: &'a Position,
    pub(in crate::run) parameters: &'a Parameters,
    /// Has the last checkpoint, and the history of the hooks.
    pub(in crate::run) saver: &'a mut Saver,
}

impl Recreation<'_, '_> {
    /// Restarts hooks that have panicked, or whose processes have ended.
    pub(in crate::run) fn restart_ended(&mut self) -> Result<(), RunError> {
        for id in self.shared.requests.take_restarts() {
            let state = self.hooks.last_state(id);
            self.shared.reinstate(true);
            let created = self.hooks.create_again(id, self.position, self.shared);
            self.shared.reinstate(false);
            self.note_restart(id);
            let restarted = match created {
                Ok(()) => self.reinstate(id, state.as_deref())?,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = restarted {
                self.hooks.give_up(id, &fault, self.shared);
            }
        }
        Ok(())
    }

    fn note_restart(&mut self, id: HookId) {
        if let Some(hook) = self.hooks.hooks().get(id.position()) {
            self.saver.note_history(HistoryRecord::Restart {
                hook: hook.spec.name.clone(),
                epoch: self.position.epoch,
                iteration: self.position.iteration,
            });
        }
    }

    /// Creates a new instance in the place of the old one; returns the library before, or why nothing was changed.
    pub(super) fn exchange(
        &mut self,
        id: HookId,
        blueprint: HookBlueprint,
        library: Option<&NewLibrary>,
        state: &[u8],
    ) -> Result<Result<LibraryId, String>, RunError> {
        let requests = self.shared.requests.set_aside();
        self.shared.reinstate(true);
        let phase = self.position.phase;
        let exchanged = (self.hooks).exchange(id, blueprint, library, phase, self.shared);
        self.shared.reinstate(false);
        self.shared.requests.put_back(requests);
        if exchanged.is_ok()
            && let Err(fault) = self.reinstate(id, Some(state))?
        {
            self.hooks.blame_fault(id, *fault, self.shared)?;
        }
        Ok(exchanged)
    }

    /// Calls a new instance of a hook as in a run that is resumed here.
    fn reinstate(&mut self, id: HookId, state: Option<&[u8]>) -> Result<Reinstated, RunError> {
        let position = self.position;
        let torn = |error| RunError::task("restarting a hook", position, error);
        let snapshot = EpochSnapshot::take(self.parameters, self.shared).map_err(torn)?;
        let requests = self.shared.requests.set_aside();
        self.shared.reinstate(true);
        let result = self.call_as_resumed(id, state);
        self.shared.reinstate(false);
        let listens = self.shared.requests.take_listening();
        self.shared.requests.put_back(requests);
        (snapshot.put_back(self.parameters, self.shared)).map_err(torn)?;
        for (hook, listens) in listens {
            self.hooks.set_listening(&hook, listens);
        }
        Ok(result)
    }

    fn call_as_resumed(&mut self, id: HookId, state: Option<&[u8]>) -> Reinstated {
        let mut position = self.position.clone();
        position.phase = Phase::Train;
        (self.hooks).call_one(id, Point::BeforeRun, None, &position, self.shared)?;
        (self.hooks).call_one(id, Point::BeforeLoop, None, &position, self.shared)?;
        if let Some(state) = state {
            self.hooks.load_state(id, state, self.shared)?;
            let path = self.saver.last_checkpoint.clone().unwrap_or_default();
            let tag = path.file_name().unwrap_or_default().to_string_lossy();
            let text = path.to_string_lossy();
            let loaded = CheckpointResult::new(&path, &tag, "").payload(&text);
            let loaded = Some(Payload::Checkpoint(&loaded));
            let point = Point::AfterLoadCheckpoint;
            (self.hooks).call_one(id, point, loaded, &position, self.shared)?;
        }
        // For the epoch in progress, if one is.
        if let Some(start) = position.begun
            && position.stage == TrainingStage::Epoch
        {
            position.show_start(start);
            position.is_reopening = true;
            (self.hooks).call_one(id, Point::BeforeEpoch, None, &position, self.shared)?;
        }
        Ok(())
    }
}

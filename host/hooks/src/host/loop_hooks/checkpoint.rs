//! States of hooks for the loop's checkpoints.

use std::path::Path;

use sconce_lifecycle::Place;
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi};
use sconce_plugin_api::{Keep, Point};

use super::LoopHooks;
use crate::dispatch::Payload;
use crate::host::error::{HostError, HostResult};
use crate::host::requests::Served;
use crate::host::states::LoopState;
use crate::host::swap::exchange;

/// Tag of a checkpoint that the loop saves by itself.
const OWN_TAG: &str = "loop";

impl LoopHooks<'_> {
    /// The hooks' states, with the loop's counters, for a checkpoint that the loop saves by itself: `before_save_checkpoint`.
    /// [`saved`](LoopHooks::saved) comes next.
    ///
    /// # Errors
    ///
    /// If a hook fails, or what it has published can't be written.
    pub fn states(&mut self) -> HostResult<Vec<u8>> {
        self.collect(OWN_TAG, "")
    }

    /// The checkpoint with [`states`](LoopHooks::states) is on disk at `path`, or could not be written: `after_save_checkpoint`.
    ///
    /// # Errors
    ///
    /// If a hook fails.
    pub fn saved(&mut self, path: &Path, written: &Served) -> HostResult {
        self.announce_saved((path, OWN_TAG, ""), written, 0.0)
    }

    pub(super) fn collect(&mut self, tag: &str, hook: &str) -> HostResult<Vec<u8>> {
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        self.announce(
            Point::BeforeSaveCheckpoint,
            &saving((Path::new(""), "", tag, hook), ""),
        )?;
        let Some(hooks) = &mut self.hooks else {
            return Err(HostError::States("the run has ended".to_owned()));
        };
        let states = hooks.save_states(&self.shared)?;
        let state = LoopState::of(
            hooks,
            states,
            self.followed.position(),
            self.swapped.as_ref(),
            &self.frozen,
            &self.shared,
        )?;
        state.to_bytes().map_err(HostError::States)
    }

    pub(super) fn announce_saved(
        &mut self,
        (path, tag, hook): (&Path, &str, &str),
        written: &Served,
        seconds: f64,
    ) -> HostResult {
        let text = path.to_string_lossy();
        let error = written.as_ref().err().map_or("", String::as_str);
        let payload = CheckpointAbi {
            seconds,
            ..saving((path, &text, tag, hook), error)
        };
        let announced = self.announce(Point::AfterSaveCheckpoint, &payload);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        announced
    }

    fn announce(&mut self, point: Point, payload: &CheckpointAbi) -> HostResult {
        if let Some(hooks) = &mut self.hooks {
            let payload = Payload::Checkpoint(payload);
            hooks.call_with(point, payload, self.followed.position(), &self.shared)?;
        }
        self.serve()
    }

    /// Restores states that [`states`](LoopHooks::states) has collected: now, or if the training has not begun, after its
    /// `before_loop`. The model's parameters and the optimizer's state are the loop's own.
    ///
    /// # Errors
    ///
    /// If the bytes are not such states, or a hook fails.
    pub fn restore(&mut self, states: &[u8]) -> HostResult {
        let state = LoopState::read(states).map_err(HostError::States)?;
        if matches!(self.followed.place(), Place::Created | Place::Begun) {
            state.show_counters(self.followed.position_mut());
            self.resumed = Some(state);
            return Ok(());
        }
        // The loop has overwritten what was swapped.
        self.swapped = None;
        self.put_back(&state)
    }

    pub(super) fn put_back(&mut self, state: &LoopState) -> HostResult {
        let Some(hooks) = &mut self.hooks else {
            return Err(HostError::States("the run has ended".to_owned()));
        };
        let position = self.followed.position_mut();
        state.put_back(hooks, position, &mut self.frozen, &self.shared)?;
        if let Some(set) = &state.swapped {
            // The checkpoint's parameters were those of the set.
            exchange(set, &self.shared).map_err(HostError::States)?;
        }
        let payload = saving((Path::new(""), "", OWN_TAG, ""), "");
        let announced = self.announce(Point::AfterLoadCheckpoint, &payload);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        announced
    }
}

/// What hooks are given of a checkpoint.
fn saving((_, path, tag, hook): (&Path, &str, &str, &str), error: &str) -> CheckpointAbi {
    CheckpointAbi {
        path: TextAbi::new(path),
        tag: TextAbi::new(tag),
        hook: TextAbi::new(hook),
        error: TextAbi::new(error),
        bytes: 0,
        seconds: 0.0,
        reference: TextAbi::new(""),
        missing: TextAbi::new(""),
    }
}

//! What the passes and steps of a candle loop change.

use std::cell::RefCell;

use sconce_lifecycle::Place;
use sconce_parameters::Parameters;
use sconce_plugin_api::Phase;

use super::accumulation::Accumulation;
use super::error::{HostError, HostResult};
use super::loop_hooks::LoopHooks;

/// The hooks of a loop, for one pass or step at a time.
pub(super) struct LoopCell<'log> {
    pub(super) inner: RefCell<Inner<'log>>,
    pub(super) parameters: Parameters,
}

impl<'log> LoopCell<'log> {
    pub(super) fn new(hooks: LoopHooks<'log>, parameters: Parameters) -> LoopCell<'log> {
        LoopCell {
            inner: RefCell::new(Inner {
                hooks,
                accumulation: Accumulation::default(),
                late: None,
            }),
            parameters,
        }
    }
}

/// What passes and steps change.
pub(super) struct Inner<'log> {
    pub(super) hooks: LoopHooks<'log>,
    pub(super) accumulation: Accumulation,
    /// An error at the end of a pass that the loop has left early; the next call returns it.
    pub(super) late: Option<HostError>,
}

impl Inner<'_> {
    /// Ends a pass, all of whose steps must be finished.
    pub(super) fn end_pass(&mut self, phase: Phase, is_complete: Option<bool>) -> HostResult {
        self.accumulation.forget();
        if matches!(self.hooks.place(), Place::Batch(_)) {
            return self.hooks.end_batch().map(drop);
        }
        match phase {
            Phase::Train => self.hooks.end_epoch(is_complete),
            _ => self.hooks.end_evaluation(),
        }
    }
}

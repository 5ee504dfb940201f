//! State of a validation or test in progress.

use sconce_plugin_api::abi::ViewAbi;

use crate::checkpoint::{EpochStart, PassState};
use crate::exact::Exact;

/// The parts of a validation's or test's state that checkpoints need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evaluation {
    /// Whether its pass over the data is in progress: saves wait for its end.
    pub(super) is_under_way: bool,
    /// Whether a hook requested it.
    pub(super) is_asked_for: bool,
    /// Whether it is finished but not yet counted in the epoch's ordinal.
    pub(super) is_uncounted: bool,
    /// The view's state of the enclosing training pass, while the view shows the evaluation.
    pub(super) outer: Option<InterruptedPass>,
}

/// The view's state of a training pass that is interrupted by an evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterruptedPass {
    pub(super) batch: u64,
    pub(super) batches: u64,
    pub(super) batch_size: u64,
    pub(super) loss: f64,
    pub(super) flags: u64,
}

impl InterruptedPass {
    /// The view's flags that belong to a pass.
    pub(super) const FLAGS: u64 = ViewAbi::HAS_LOSS | ViewAbi::UPDATES;

    pub(super) fn of(view: &ViewAbi) -> InterruptedPass {
        InterruptedPass {
            batch: view.batch,
            batches: view.batches,
            batch_size: view.batch_size,
            loss: view.loss,
            flags: view.flags & Self::FLAGS,
        }
    }

    /// The part that is stored in checkpoints; the rest follows from the counters.
    pub(super) fn state(self, begun: Option<EpochStart>) -> Option<PassState> {
        let has = |flag| self.flags & flag != 0;
        let state = PassState {
            loss: has(ViewAbi::HAS_LOSS).then_some(Exact(self.loss)),
            batch_size: self.batch_size,
            updates: has(ViewAbi::UPDATES),
            begun,
        };
        let is_as_at_the_beginning = state == PassState::default();
        (!is_as_at_the_beginning).then_some(state)
    }

    /// Restores what the view shows of the last batch, in a pass that has been resumed after it.
    pub(super) fn restore_flags(self, view: &mut ViewAbi) {
        view.batch_size = self.batch_size;
        view.loss = self.loss;
        view.flags = view.flags & !Self::FLAGS | self.flags;
    }

    pub(super) fn restore(self, view: &mut ViewAbi) {
        view.batch = self.batch;
        view.batches = self.batches;
        self.restore_flags(view);
    }
}
